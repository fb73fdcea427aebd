import type { EventOf, Placed } from '#db/events/events.ts';
import type { Attempt } from '#db/events/upstream-events.ts';
import { type EndedEvent, type Figures, NO_CORRECTION, recordedFigures } from '#db/fold/correction.ts';
import { isEstimated } from '#db/fold/estimated.ts';
import { timeOfUuidv7 } from '#db/ids.ts';
import type { Usage } from '#db/money.ts';
import { tokensOf } from '#db/pricing/cost.ts';
import { type PricedPart, TOKEN_CLASSES, UNITS } from '#db/pricing/parts.ts';
import type { FullRate } from '#db/pricing/schedule.ts';

/** The attempts of ended calls, as a provider may bill them. Pure. */

export type BilledPart = PricedPart | 'requests';
export type Quantities = ReadonlyMap<BilledPart, bigint>;

/** How the usage of an attempt is known. */
export type Ending =
  /** The provider reported it. */
  | 'reported'
  /** It was counted or estimated here. */
  | 'estimated'
  /** The attempt failed without usage. */
  | 'failed'
  /** The server died during the call, which keeps a part of its reservation. */
  | 'abandoned';

export type RecordedAttempt = {
  request: string;
  account: string;
  /** The last attempt of a call is the one that the account is charged for. */
  isLast: boolean;
  /** As the client named it. */
  model: string;
  /** Names that a bill may have for the model: the most likely first. */
  names: readonly string[];
  /** Of the call, in ms since 1970. */
  startMs: number;
  endMs: number;
  upstream: string | null;
  credential: string | null;
  serviceTier: string | null;
  providerRequest: string | null;
  ending: Ending;
  quantities: Quantities;
  rate: FullRate | null;
  /** The operator's cost by the log and the account's charge, with corrections; in nano-dollars. */
  cost: bigint;
  charged: bigint;
  /** Whether the request was corrected. */
  isCorrected: boolean;
};

/** What the rate of an attempt depends on. */
export type RateQuery = {
  model: string;
  /** The version that the log names; null: the one in force when the call started. */
  version: number | null;
  startMs: number;
  minute: number;
  inputTokens: number;
  serviceTier: string | undefined;
  upstream: string | undefined;
};
export type RateOf = (query: RateQuery) => FullRate | null;

type Settled = EventOf<'request.settled'>;
type Counts = Pick<Attempt, 'input_tokens' | 'cache_read_tokens' | 'cache_write_tokens' | 'usage_details'> &
  Pick<Attempt, 'output_tokens' | 'reasoning_tokens'>;

const MINUTE_MS = 60_000;

/**
 * The attempts of an ended call.
 * @param added by its corrections.
 */
export function attemptsOf(
  { at, event }: Pick<Placed, 'at'> & { event: EndedEvent },
  added: Figures | undefined,
  rateOf: RateOf,
): RecordedAttempt[] {
  if (event.type === 'request.settled') return settledAttempts(event, added, rateOf);
  const figures = recordedFigures(event);
  return [
    {
      request: event.request,
      account: event.account,
      model: event.model,
      isCorrected: added !== undefined,
      isLast: true,
      names: [event.model],
      startMs: timeOfUuidv7(event.request),
      endMs: at.getTime(),
      upstream: null,
      credential: null,
      serviceTier: null,
      providerRequest: null,
      ending: 'abandoned',
      quantities: new Map(),
      rate: null,
      cost: BigInt(figures.upstream_cost_nanousd + (added?.upstream_cost_nanousd ?? 0)),
      charged: BigInt(figures.cost_nanousd + (added?.cost_nanousd ?? 0)),
    },
  ];
}

function settledAttempts(event: Settled, added: Figures = NO_CORRECTION, rateOf: RateOf): RecordedAttempt[] {
  const tried = event.attempts ?? [onlyAttempt(event)];
  // Not when the end was recorded, which can be later.
  const startMs = timeOfUuidv7(event.request);
  const endMs = startMs + event.duration_ms;
  return tried.map((attempt, index) => {
    const isLast = index === tried.length - 1;
    const more = isLast ? added : NO_CORRECTION;
    const usage = usageOf(attempt, more);
    const source = attempt.usage_source ?? 'none';
    const serviceTier = isLast ? event.service_tier : undefined;
    const { upstream } = attempt;
    const rate = rateOf({
      model: event.model,
      version: event.price_plan === undefined ? (event.price_version ?? null) : null,
      startMs,
      minute: event.admitted_minute ?? Math.floor(startMs / MINUTE_MS),
      inputTokens: usage.input,
      serviceTier,
      upstream,
    });
    return {
      request: event.request,
      account: event.account,
      model: event.model,
      isCorrected: added !== NO_CORRECTION,
      isLast,
      names: namesOf(attempt, event.model),
      startMs,
      endMs,
      upstream: upstream === '' ? null : upstream,
      credential: attempt.credential ?? null,
      serviceTier: serviceTier ?? null,
      providerRequest: attempt.provider_request ?? null,
      ending: source === 'none' ? 'failed' : isEstimated(source) ? 'estimated' : 'reported',
      quantities: quantitiesOf(usage),
      rate,
      cost: BigInt((attempt.upstream_cost_nanousd ?? 0) + more.upstream_cost_nanousd),
      charged: isLast ? BigInt((event.cost_nanousd ?? 0) + added.cost_nanousd) : 0n,
    };
  });
}

/** The attempt of a call that had one, by the fields of its end. */
function onlyAttempt(event: Settled): Omit<Attempt, 'outcome' | 'duration_ms'> {
  const { upstream = '', cost_nanousd, upstream_cost_nanousd = cost_nanousd } = event;
  return {
    upstream,
    credential: event.credential,
    usage_source: event.usage_source,
    input_tokens: event.input_tokens,
    cache_read_tokens: event.cache_read_tokens,
    cache_write_tokens: event.cache_write_tokens,
    output_tokens: event.output_tokens,
    reasoning_tokens: event.reasoning_tokens,
    usage_details: event.usage_details,
    upstream_cost_nanousd,
    answered_model: event.answered_model,
    provider_request: event.provider_request,
  };
}

/** The different names of the model of an attempt. */
function namesOf(
  { answered_model: answered, upstream_model: upstream }: Pick<Attempt, 'answered_model' | 'upstream_model'>,
  model: string,
): string[] {
  const names: string[] = [];
  if (answered !== undefined) names.push(answered);
  if (upstream !== undefined && upstream !== answered) names.push(upstream);
  if (model !== answered && model !== upstream) names.push(model);
  return names;
}

function usageOf(used: Counts, added: Figures): Usage {
  const { input_tokens = 0, cache_read_tokens = 0, output_tokens = 0, reasoning_tokens = 0 } = used;
  return {
    input: input_tokens + added.input_tokens,
    cached: cache_read_tokens + added.cache_read_tokens,
    cacheWrite: (used.cache_write_tokens ?? 0) + added.cache_write_tokens,
    output: output_tokens + added.output_tokens,
    reasoning: reasoning_tokens + added.reasoning_tokens,
    ...(used.usage_details === undefined ? {} : { details: used.usage_details }),
  };
}

/** The parts of a usage, without those of which nothing was used. */
function quantitiesOf(usage: Usage): Quantities {
  const quantities = new Map<BilledPart, bigint>();
  const tokens = tokensOf(usage);
  for (const part of TOKEN_CLASSES) if (tokens[part] > 0) quantities.set(part, BigInt(tokens[part]));
  const { details } = usage;
  if (details === undefined) return quantities;
  const units = {
    characters: details.characters,
    media_hour: details.media_ms,
    image: details.images,
    web_search: details.web_searches,
    tool_call: details.tool_calls,
  };
  for (const unit of UNITS) {
    const count = units[unit] ?? 0;
    if (count > 0) quantities.set(unit, BigInt(count));
  }
  return quantities;
}
