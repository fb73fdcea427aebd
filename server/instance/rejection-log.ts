import type { EventOf } from '#db/events/events.ts';
import type { Key } from '#db/fold/key.ts';
import type { RelayedRoute } from '#db/limits/limits.ts';
import { REJECTIONS_COALESCE_MS, REJECTION_KINDS_MAX } from '#server/instance/bounds.ts';
import type { ApiError } from '#server/errors/api-error.ts';

type Refused = EventOf<'request.rejected'>;

/** A rejected call. Its model is known once its body was read. */
export type RejectedCall = { request: string; route: RelayedRoute; model?: string };

/**
 * Records calls of known accounts that were rejected by a permission or a limit. Rejections of one key, route
 * and model with the same code within a second become one event with a count, so a flood of them costs the
 * log one event per second.
 */
export class RejectionLog {
  readonly #record: (event: Refused) => void;
  readonly #pending = new Map<string, Refused>();
  #timer: NodeJS.Timeout | undefined;

  constructor(record: (event: Refused) => void) {
    this.#record = record;
  }

  note(key: Key, { request, route, model }: RejectedCall, { code, status }: ApiError): void {
    if (status !== 403 && status !== 429) return;
    const name = `${key.id} ${code} ${route} ${model ?? ''}`;
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
    if (model !== undefined) event.model = model;
    this.#pending.set(name, event);
    this.#timer ??= setTimeout(() => this.flush(), REJECTIONS_COALESCE_MS);
  }

  /** Records the pending events. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    for (const event of this.#pending.values()) this.#record(event);
    this.#pending.clear();
  }
}
