import type { EventOf, RequestEvent } from '#db/events/events.ts';
import type { Attempt } from '#db/events/upstream-events.ts';
import {
  ACCOUNT_VALUES_MAX,
  MODEL_UPSTREAM_VALUES_MAX,
  MODEL_VALUES_MAX,
  OTHER,
  UPSTREAM_VALUES_MAX,
} from '#db/telemetry/bounds.ts';
import { CALL_METRICS as M } from '#db/telemetry/call-catalogue.ts';
import type { Sample } from '#db/telemetry/definition.ts';
import {
  type CostCounter,
  costCounters,
  type Counter,
  counters,
  type Histogram,
  histograms,
  LabelValues,
} from '#db/telemetry/series.ts';
import type { ApiError } from '#server/errors/api-error.ts';
import { outcomeLabel } from '#server/telemetry/outcome-label.ts';

type Settled = EventOf<'request.settled'>;

/** The series of a model by a route. */
type RouteSeries = { outcomes: Map<string, Counter>; timeToFirstToken: Histogram; duration: Histogram };
/** The series of a model by an upstream. */
type UpstreamSeries = {
  input: Counter;
  output: Counter;
  cacheRead: Counter;
  cacheWrite: Counter;
  reasoning: Counter;
  cost: CostCounter;
  upstreamCost: CostCounter;
  unpriced: Counter;
};
type ModelSeries = {
  label: string;
  routes: Map<string, RouteSeries>;
  upstreams: Map<string, UpstreamSeries>;
};
type AccountSeries = { requests: Counter; tokens: Counter; cost: CostCounter };
type AttemptSeries = { outcomes: Map<string, Counter>; duration: Histogram };

/**
 * Counts calls. Values of labels are names that an administrator has configured, as far as their number is
 * bounded, and words of the program: whatever names clients send, they add no series. Series are looked up by
 * few steps and kept, since this runs for each call.
 */
export class CallMetrics {
  readonly #accepted = counters(M.accepted);
  readonly #requests = counters(M.requests);
  readonly #tokens = counters(M.tokens);
  readonly #cost = costCounters(M.cost);
  readonly #upstreamCost = costCounters(M.upstreamCost);
  readonly #unpriced = counters(M.unpriced);
  readonly #accountRequests = counters(M.accountRequests);
  readonly #accountTokens = counters(M.accountTokens);
  readonly #accountCost = costCounters(M.accountCost);
  readonly #timeToFirstToken = histograms(M.timeToFirstToken);
  readonly #duration = histograms(M.duration);
  readonly #rejections = counters(M.rejections);
  readonly #attempts = counters(M.attempts);
  readonly #attemptDuration = histograms(M.attemptDuration);

  readonly #modelValues = new LabelValues(MODEL_VALUES_MAX);
  readonly #pairValues = new LabelValues(MODEL_UPSTREAM_VALUES_MAX);
  readonly #upstreamValues = new LabelValues(UPSTREAM_VALUES_MAX);
  readonly #accountValues = new LabelValues(ACCOUNT_VALUES_MAX);
  readonly #routes = new Map<string, Counter>();
  readonly #models = new Map<string, ModelSeries>();
  readonly #accounts = new Map<string, AccountSeries>();
  readonly #upstreams = new Map<string, AttemptSeries>();
  readonly #codes = new Map<string, Counter>();
  readonly #configuredName: (model: string) => string | null;

  /** @param configuredName the name or pattern that a model is configured by; null: it isn't. */
  constructor(configuredName: (model: string) => string | null) {
    this.#configuredName = configuredName;
  }

  rejected({ code, status }: Pick<ApiError, 'code' | 'status'>): void {
    let series = this.#codes.get(code);
    if (!series) this.#codes.set(code, (series = this.#rejections.of(code, String(status))));
    series.value++;
  }

  attempted({ upstream, outcome, duration_ms }: Attempt): void {
    const label = this.#upstreamValues.of(upstream);
    let series = this.#upstreams.get(label);
    if (!series) {
      series = { outcomes: new Map(), duration: this.#attemptDuration.of(label) };
      this.#upstreams.set(label, series);
    }
    let counter = series.outcomes.get(outcome);
    if (!counter) {
      // The outcome may be a status that the upstream has made up.
      const value = outcomeLabel(outcome);
      counter = this.#attempts.of(label, value);
      if (value === outcome) series.outcomes.set(outcome, counter);
    }
    counter.value++;
    series.duration.observe(duration_ms / 1000);
  }

  /** @param trace the trace of the request, if it is sampled. */
  recorded(event: RequestEvent, trace: string | null): void {
    if (event.type === 'request.settled') this.#settled(event, trace);
    else if (event.type === 'request.accepted') {
      let series = this.#routes.get(event.route);
      if (!series) this.#routes.set(event.route, (series = this.#accepted.of(event.route)));
      series.value++;
    }
  }

  #settled(event: Settled, trace: string | null): void {
    const { request, route = OTHER, end_reason, input_tokens, output_tokens } = event;
    const cost = event.cost_nanousd ?? 0;
    const model = this.#model(event.model);
    const byRoute = this.#route(model, route);
    let outcome = byRoute.outcomes.get(end_reason);
    if (!outcome) {
      outcome = this.#requests.of(model.label, route, end_reason);
      byRoute.outcomes.set(end_reason, outcome);
    }
    outcome.value++;
    byRoute.duration.observe(event.duration_ms / 1000, request, trace);
    if (event.first_byte_ms !== undefined)
      byRoute.timeToFirstToken.observe(event.first_byte_ms / 1000, request, trace);
    const byUpstream = this.#upstream(model, event.upstream ?? 'none');
    byUpstream.input.value += input_tokens;
    byUpstream.output.value += output_tokens;
    byUpstream.cacheRead.value += event.cache_read_tokens ?? 0;
    byUpstream.cacheWrite.value += event.cache_write_tokens ?? 0;
    byUpstream.reasoning.value += event.reasoning_tokens ?? 0;
    byUpstream.cost.nanoUsd += cost;
    byUpstream.upstreamCost.nanoUsd += event.upstream_cost_nanousd ?? cost;
    if (event.cost_nanousd === undefined || event.cost_nanousd === null) byUpstream.unpriced.value++;
    const account = this.#account(event.account);
    account.requests.value++;
    account.tokens.value += input_tokens + output_tokens;
    account.cost.nanoUsd += cost;
  }

  #model(name: string): ModelSeries {
    const configured = this.#configuredName(name);
    const known = this.#models.get(configured ?? OTHER);
    if (known) return known;
    const label = configured === null ? OTHER : this.#modelValues.of(configured);
    const series = this.#models.get(label) ?? { label, routes: new Map(), upstreams: new Map() };
    this.#models.set(label, series);
    return series;
  }

  #route(model: ModelSeries, route: string): RouteSeries {
    let series = model.routes.get(route);
    if (!series) {
      const { label } = model;
      const [timeToFirstToken, duration] = [this.#timeToFirstToken, this.#duration].map((family) =>
        family.of(label, route),
      ) as [Histogram, Histogram];
      series = { outcomes: new Map(), timeToFirstToken, duration };
      model.routes.set(route, series);
    }
    return series;
  }

  #upstream(model: ModelSeries, upstream: string): UpstreamSeries {
    let series = model.upstreams.get(upstream);
    if (series) return series;
    const pair = `${model.label}\n${this.#upstreamValues.of(upstream)}`;
    const isKept = this.#pairValues.of(pair) === pair;
    const label = isKept ? this.#upstreamValues.of(upstream) : OTHER;
    const tokens = (type: string): Counter => this.#tokens.of(model.label, label, type);
    series = {
      input: tokens('input'),
      output: tokens('output'),
      cacheRead: tokens('cache_read'),
      cacheWrite: tokens('cache_write'),
      reasoning: tokens('reasoning'),
      cost: this.#cost.of(model.label, label),
      upstreamCost: this.#upstreamCost.of(model.label, label),
      unpriced: this.#unpriced.of(model.label, label),
    };
    if (label === upstream || model.upstreams.size < UPSTREAM_VALUES_MAX)
      model.upstreams.set(upstream, series);
    return series;
  }

  #account(account: string): AccountSeries {
    const known = this.#accounts.get(account);
    if (known) return known;
    const label = this.#accountValues.of(account);
    const series = this.#accounts.get(label) ?? {
      requests: this.#accountRequests.of(label),
      tokens: this.#accountTokens.of(label),
      cost: this.#accountCost.of(label),
    };
    this.#accounts.set(label, series);
    return series;
  }

  get samples(): Sample[] {
    return [
      this.#accepted,
      this.#requests,
      this.#tokens,
      this.#cost,
      this.#upstreamCost,
      this.#unpriced,
      this.#accountRequests,
      this.#accountTokens,
      this.#accountCost,
      this.#timeToFirstToken,
      this.#duration,
      this.#rejections,
      this.#attempts,
      this.#attemptDuration,
    ].flatMap((family) => family.samples);
  }
}
