import type { CallProgress } from '#db/instances/instance.ts';
import { HEARTBEAT_TOKENS_MIN, PROGRESS_CALLS_MAX } from '#server/instance/bounds.ts';
import type { Registry } from '#db/registry.ts';
import type { RunningCall } from '#server/relay/relay.ts';

/**
 * The charges of this process's streamed calls if it dies before its next heartbeat: the relayed tokens and
 * a heartbeat's worth: as much as since the last heartbeat, and at least HEARTBEAT_TOKENS_MIN.
 * Read once for each heartbeat, so that it costs nothing for each call or token.
 *
 * It is an estimate: a process that is cut off from the database relays until it learns that it was declared
 * dead. So calls under a hard limit are not reported, and stay charged with their whole reservation.
 */
export class ProgressReport {
  readonly #running: Registry<RunningCall>;
  /** The tokens of each call at the last heartbeat. */
  readonly #before = new WeakMap<RunningCall, number>();

  constructor(running: Registry<RunningCall>) {
    this.#running = running;
  }

  /** The oldest calls first, which have most to lose; the others are charged their whole reservation. */
  read(): CallProgress[] {
    const progress: CallProgress[] = [];
    for (const call of this.#oldestFirst()) {
      if (progress.length === PROGRESS_CALLS_MAX) break;
      const relayed = call.relayedTokens;
      const more = Math.max(relayed - (this.#before.get(call) ?? 0), HEARTBEAT_TOKENS_MIN);
      const charge = call.chargeAt(relayed + more);
      this.#before.set(call, relayed);
      if (charge !== null)
        progress.push({ request: call.request, tokens: charge.tokens, costNanousd: charge.cost });
    }
    return progress;
  }

  /** Ids of requests are in the order of their time. */
  #oldestFirst(): readonly RunningCall[] {
    const calls = this.#running.members();
    if (calls.length <= PROGRESS_CALLS_MAX) return calls;
    return calls.toSorted((left, right) => (left.request < right.request ? -1 : 1));
  }
}
