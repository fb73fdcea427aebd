import type { EventOf } from '#db/events/events.ts';
import type { Key } from '#db/fold/key.ts';
import type { RelayedRoute } from '#db/limits/limits.ts';
import {
  REJECTION_ATTRIBUTIONS_MAX,
  REJECTION_MODELS_MAX,
  REJECTION_KINDS_MAX,
  REJECTIONS_COALESCE_MS,
} from '#server/instance/bounds.ts';
import type { CallAttribution } from '#server/attribution/attribution.ts';
import type { ApiError } from '#server/errors/api-error.ts';

type Refused = EventOf<'request.rejected'>;

/** A rejected call. Its model and its attribution are known once its body was read. */
export type RejectedCall = {
  request: string;
  route: RelayedRoute;
  model?: string;
  attribution?: Readonly<CallAttribution>;
  /** What its reservation would follow from; known once its limits were looked up. */
  size?: RejectedSize;
};

/** The size of a rejected call, and the minute of its rejection. */
export type RejectedSize = Pick<
  Refused,
  'body_bytes' | 'hold_tokens' | 'prompt_estimate' | 'max_output_tokens' | 'admitted_minute'
>;

/**
 * Records calls of known accounts that were rejected by a permission or a limit. Rejections of one key,
 * route, model, end user, session and tags with the same code within a second become one event with a count,
 * so a flood of them costs the log one event per second. Of each key REJECTION_ATTRIBUTIONS_MAX kinds keep
 * their attribution in that time, and REJECTION_MODELS_MAX kinds their model: a client can't fill the log
 * with a session or a model name for each call.
 */
export class RejectionLog {
  readonly #record: (event: Refused) => void;
  readonly #pending = new Map<string, Refused>();
  /** How many pending events of each key are attributed. */
  readonly #attributed = new Map<string, number>();
  /** How many of those without attribution have a model. */
  readonly #modeled = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;

  constructor(record: (event: Refused) => void) {
    this.#record = record;
  }

  note(key: Key, rejected: RejectedCall, { code, status }: ApiError): void {
    const { request, route, model, attribution, size } = rejected;
    if (status !== 403 && status !== 429) return;
    const plainName = `${key.id} ${code} ${route}`;
    const modelName = model === undefined ? plainName : `${plainName} ${model}`;
    const attributed = this.#attributed.get(key.id) ?? 0;
    const modeled = this.#modeled.get(key.id) ?? 0;
    let name = attribution === undefined ? modelName : modelName + attributionName(attribution);
    if (attributed >= REJECTION_ATTRIBUTIONS_MAX && !this.#pending.has(name)) name = modelName;
    if (name === modelName && modeled >= REJECTION_MODELS_MAX && !this.#pending.has(name)) name = plainName;
    const known = this.#pending.get(name);
    if (known) {
      known.rejected_count++;
      return;
    }
    if (this.#pending.size >= REJECTION_KINDS_MAX) this.flush();
    const event: Refused = {
      type: 'request.rejected',
      request,
      account: key.account,
      key: key.id,
      route,
      error_code: code,
      status,
      rejected_count: 1,
    };
    if (model !== undefined && name !== plainName) event.model = model;
    if (size !== undefined) Object.assign(event, size);
    if (name === modelName) this.#modeled.set(key.id, modeled + 1);
    else if (name !== plainName) {
      Object.assign(event, attribution);
      this.#attributed.set(key.id, attributed + 1);
    }
    this.#pending.set(name, event);
    this.#timer ??= setTimeout(() => this.flush(), REJECTIONS_COALESCE_MS);
  }

  /** Records the pending events. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    for (const event of this.#pending.values()) this.#record(event);
    this.#pending.clear();
    this.#attributed.clear();
    this.#modeled.clear();
  }
}

const attributionName = ({ end_user = '', session = '', tags = [] }: Readonly<CallAttribution>): string =>
  end_user + session === '' && tags.length === 0 ? '' : ` ${end_user} ${session} ${tags.join(' ')}`;
