import { createHash } from 'node:crypto';
import { uuidv7 } from '#db/ids.ts';
import type { Key } from '#db/fold/key.ts';
import type { RelayedRoute, SubjectLimits } from '#db/limits/limits.ts';
import type { Amounts } from '#db/limits/meters.ts';
import { type CallPrice, priceOfTier } from '#db/pricing/charge.ts';
import type { BatchLine } from '#db/stored/batches.ts';
import { authorizePrice } from '#server/access/authorize-price.ts';
import { authorizeModel } from '#server/access/authorize.ts';
import { batchTargets } from '#server/batches/find-holder.ts';
import { type InputLine, type LineErrors, readInputLine } from '#server/batches/input-line.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { PastCalls } from '#server/limits/call-history.ts';
import { rejectUnbounded } from '#server/limits/unbounded-request.ts';
import { callPriceOf, pricingOf } from '#server/read-model/call-price.ts';
import { estimateCall, maxOutputTokens } from '#server/relay/call-estimate.ts';
import type { Relay } from '#server/relay/relay.ts';
import type { Target } from '#server/upstreams/target.ts';
import type { Upstream } from '#server/upstreams/upstream.ts';

/** The service tier that rules of prices name, and that the events of batch lines have. */
export const BATCH_TIER = 'batch';

/** A line that may be sent, with what its events and its row have. */
export type PlannedLine = BatchLine & { prompt_estimate: number };

/** A model of a batch, which most lines have in common. */
type PlannedModel = { target: Target; price: CallPrice | null; past: PastCalls };

export type PlanOptions = {
  relay: Pick<Relay, 'readModel' | 'upstreams' | 'history'>;
  key: Key;
  /** The upstream that has the file. */
  upstream: Upstream;
  /** The route of all lines. */
  endpoint: RelayedRoute;
  /** The limits that the batch is charged to. */
  subjects: readonly SubjectLimits[];
  minute: number;
  errors: LineErrors;
};

/** Authorizes the lines of a batch one by one, and computes their reservations. */
export class BatchPlan {
  readonly #options: PlanOptions;
  readonly #models = new Map<string, PlannedModel>();
  readonly #ids = new Set<string>();
  readonly lines: PlannedLine[] = [];
  /** What all lines together reserve. */
  readonly amounts: Amounts = { tokens: 0, cost: 0 };

  constructor(options: PlanOptions) {
    this.#options = options;
  }

  /** The prices of its models. */
  get prices(): Record<string, CallPrice | null> {
    return Object.fromEntries([...this.#models].map(([model, { price }]) => [model, price]));
  }

  /** @param bytes of the line. @param number of the line in its file, from 1. */
  add(bytes: Buffer, number: number): ApiError | null {
    const { endpoint, errors } = this.#options;
    const line = readInputLine(bytes, number);
    if (line instanceof ApiError) return line;
    if (line.route !== endpoint)
      return errors.of(number, `has the url "${line.route}", and the endpoint of the batch is "${endpoint}"`);
    return this.addLine(line, number);
  }

  /** @param number of the line, from 1. */
  addLine({ customId, route, body, parsed }: InputLine, number: number): ApiError | null {
    const { subjects, minute, errors } = this.#options;
    const custom_id = createHash('sha256').update(customId).digest('hex');
    if (this.#ids.has(custom_id)) return errors.of(number, 'repeats the "custom_id" of an earlier line');
    this.#ids.add(custom_id);
    const model = this.#modelOf(parsed.model);
    if (model instanceof ApiError) return errors.from(number, model);
    const { price, past, target } = model;

    const estimate = estimateCall(body, parsed, subjects, price, past, minute);
    const unbounded = estimate.isHard
      ? (rejectUnbounded(route, body, parsed.model, [target]) ?? refuseWithoutLimit(estimate.ownLimit))
      : null;
    if (unbounded) return errors.from(number, unbounded);
    const hold = estimate.need.wanted;
    this.amounts.tokens += hold.tokens;
    this.amounts.cost += hold.cost;
    if (!Number.isSafeInteger(this.amounts.cost))
      return errors.of(number, 'makes the batch cost more than can be counted');
    this.lines.push({
      custom_id,
      request: uuidv7(),
      model: parsed.model,
      body_bytes: body.length,
      prompt_estimate: estimate.promptTokens,
      prompt_tokens: estimate.promptLikely,
      output_limit: maxOutputTokens(estimate) ?? null,
      choices: estimate.choices,
      hold_tokens: hold.tokens,
      hold_cost_nanousd: hold.cost,
    });
    return null;
  }

  #modelOf(name: string): PlannedModel | ApiError {
    const planned = this.#models.get(name);
    if (planned) return planned;
    const { relay, key, upstream, endpoint, subjects } = this.#options;
    const { readModel, upstreams, history } = relay;
    const forbidden = authorizeModel(key, upstreams.table.resolve(name), readModel);
    if (forbidden) return forbidden;
    const targets = batchTargets(upstreams.table, name, endpoint);
    if (targets instanceof ApiError) return targets;
    const target = targets.find((each) => each.upstream === upstream);
    if (!target)
      return new ApiError('model_not_found', {
        message:
          `The model "${name}" is not served by the upstream of the batch, ` +
          'which is one of the model of its first line: use one model in each batch.',
      });
    const pricing = pricingOf(readModel, key.account);
    const found = callPriceOf(readModel, pricing, name);
    const price = found && priceOfTier(found, BATCH_TIER);
    const unpriced = authorizePrice(price, pricing, subjects);
    if (unpriced) return unpriced;
    const model = { target, price, past: history.of(key.id, name) };
    this.#models.set(name, model);
    return model;
  }
}

/** The relay can't set a limit in a file that its upstream has. */
const refuseWithoutLimit = (ownLimit: number | null): ApiError | null =>
  ownLimit === null
    ? new ApiError('invalid_value', {
        message:
          'The request has no limit on its reply, such as "max_completion_tokens", and this account has a ' +
          'hard quota, under which usage must be bounded before a request is sent.',
      })
    : null;
