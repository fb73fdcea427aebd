import type { EventOf } from '#db/events/events.ts';
import { type Admitted, extendedEvent } from '#server/relay/admitted.ts';
import { callSize, tokenLimitOf } from '#server/relay/call-estimate.ts';
import type { ClientWriter } from '#server/relay/client-writer.ts';
import type { Relay } from '#server/relay/relay.ts';
import type { CallEnd } from '#server/relay/reply-usage.ts';
import type { StoredRow } from '#db/stored/places.ts';
import type { OnStored } from '#server/providers/provider.ts';
import type { BackgroundFacts } from '#server/stored/background-facts.ts';
import { writeFacts } from '#server/stored/facts-json.ts';
import type { Choice } from '#server/upstreams/choose.ts';

type Parties = {
  relay: Pick<Relay, 'routeBack' | 'backgroundStore'>;
  admitted: Admitted;
  accepted: EventOf<'request.accepted'>;
  writer: Pick<ClientWriter, 'holdUntil'>;
};

/**
 * A reply that its provider stores. Its place is noted when its id is read.
 *
 * One that goes on in the background is written to the database before its client sees its id. Its call is
 * not settled when the relay's part is over, but handed over (`request.extended` with `handed_over`): its
 * reservation stays charged, and any server settles it once the provider has ended the response. Until the
 * hand-over is in the log, only the recovery of this instance makes it due.
 */
export class StoredReply {
  readonly #parties: Parties;
  #begun: Promise<boolean> | null = null;

  constructor(parties: Parties) {
    this.#parties = parties;
  }

  /** Whether the call goes on in the background, once that is known; null: it does not. */
  get isInBackground(): Promise<boolean> | null {
    return this.#begun;
  }

  /** Whether a reply must be read without its client: until its id is known nothing can settle it later. */
  get awaitsId(): boolean {
    return this.#parties.admitted.parsed.isBackground === true && this.#begun === null;
  }

  /** What to do with the id of a reply of this upstream. @param attempt its number, from 1. */
  onStored({ target: { upstream }, pool: { credential } }: Choice, attempt: number): OnStored {
    const { relay, admitted, writer } = this.#parties;
    return (id, isRunning) => {
      const held = { account: admitted.key.account, id, upstream: upstream.name, credential };
      if (!isRunning || admitted.parsed.isBackground !== true)
        return relay.routeBack.note({ ...held, kind: 'response' });
      this.#begun ??= this.#begin(held, attempt);
      writer.holdUntil(this.#begun);
    };
  }

  #begin(held: Omit<StoredRow, 'kind' | 'content'>, attempts: number): Promise<boolean> {
    const { relay, admitted, accepted } = this.#parties;
    const { estimate, hold, price, instance } = admitted;
    const outputMax = estimate.isHard ? hold.tokens - estimate.promptTokens : null;
    const size = callSize(estimate, accepted.body_bytes, tokenLimitOf(estimate, hold));
    const facts: BackgroundFacts = { accepted, price, size, outputMax, attempts };
    const begun = {
      ...held,
      request: accepted.request,
      call: writeFacts(facts),
      hold_tokens: hold.tokens,
      hold_cost_nanousd: hold.cost,
    };
    return relay.backgroundStore.begin(begun, instance.appender.instance);
  }

  /**
   * Hands the call over.
   * @param ending is the call's where a stream has reported its usage.
   * @param written called when that is durable.
   */
  handOver(end: CallEnd, ending: EventOf<'request.settled'>, written?: () => void): void {
    const { relay, admitted, accepted } = this.#parties;
    const { hold, instance, parsed } = admitted;
    const event = { ...extendedEvent(accepted, hold), handed_over: true as const };
    const charge = { input_tokens: hold.tokens, output_tokens: 0, cost_nanousd: hold.cost };
    instance.appender.handOver(event, () => {
      instance.limits.settle(hold, charge);
      written?.();
      relay.backgroundStore.release({
        request: event.request,
        ending: parsed.sse && end.source === 'provider' ? JSON.stringify(ending) : null,
        hold_tokens: event.hold_tokens,
        hold_cost_nanousd: event.hold_cost_nanousd ?? null,
      });
    });
  }
}
