import type { EventOf } from '#db/events/events.ts';
import type { Key } from '#db/fold/key.ts';
import { REJECTIONS_COALESCE_MS, REJECTION_KINDS_MAX } from '#server/instance/bounds.ts';
import type { ApiError } from '#server/errors/api-error.ts';

type Refused = EventOf<'request.rejected'>;

/**
 * Writes down calls of known accounts that were refused by permission or limit. Those of one key
 * with one code within a second become one event with their number: a flood of refusals costs the
 * log a line a second.
 */
export class RejectionLog {
  readonly #record: (event: Refused) => void;
  readonly #pending = new Map<string, Refused>();
  #timer: NodeJS.Timeout | undefined;

  constructor(record: (event: Refused) => void) {
    this.#record = record;
  }

  note(key: Key, request: string, { code, status }: ApiError): void {
    if (status !== 403 && status !== 429) return;
    const name = `${key.id} ${code}`;
    const known = this.#pending.get(name);
    if (known) {
      known.rejected_count++;
      return;
    }
    if (this.#pending.size >= REJECTION_KINDS_MAX) this.flush();
    this.#pending.set(name, {
      type: 'request.rejected',
      request,
      account: key.account,
      key: key.id,
      error_code: code,
      status,
      rejected_count: 1,
    });
    this.#timer ??= setTimeout(() => this.flush(), REJECTIONS_COALESCE_MS);
  }

  /** Hands on what has been gathered. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    for (const event of this.#pending.values()) this.#record(event);
    this.#pending.clear();
  }
}
