import type { Logger } from '#db/diagnostics/logger.ts';
import { errorFields } from '#db/diagnostics/error-fields.ts';
import type { EventOf } from '#db/events/events.ts';
import type { BackgroundCall } from '#db/stored/background.ts';
import type { Relay } from '#server/relay/relay.ts';
import type { BackgroundFacts } from '#server/stored/background-facts.ts';
import { readFacts } from '#server/stored/facts-json.ts';
import {
  BACKGROUND_ACTIVE_MS,
  BACKGROUND_IDLE_LOOK_MS,
  BACKGROUND_LOOK_MS,
  POLLS_MAX,
  STORED_REPLY_MS,
} from '#server/stored/bounds.ts';
import { DueLoop } from '#server/stored/due-loop.ts';
import { endingOf, judgePoll, lostEnding, type Polled } from '#server/stored/judge-poll.ts';
import { JSON_REPLY_BYTES_MAX } from '#server/wire/bounds.ts';
import { ByteCollector } from '#server/wire/byte-collector.ts';

/**
 * Settles background responses, whether or not a client asks for them. Each server looks for those that are
 * due, every second while there were any lately. It takes some, asks their providers and appends the endings
 * of those that have ended. A server and not the worker, since servers alone have the credentials. Each call
 * is settled once, whichever server does it: `daybook.settle_background` deletes its row together with the
 * append.
 */
export class BackgroundPoller {
  readonly #relay: Relay;
  readonly #log: Logger;
  readonly #loop: DueLoop<BackgroundCall>;

  constructor(relay: Relay, log: Logger) {
    this.#relay = relay;
    this.#log = log;
    this.#loop = new DueLoop({
      store: relay.backgroundStore,
      instance: () => relay.instance.appender.instance,
      atOnceMax: POLLS_MAX,
      lookMs: BACKGROUND_LOOK_MS,
      activeMs: BACKGROUND_ACTIVE_MS,
      idleLookMs: BACKGROUND_IDLE_LOOK_MS,
      handle: (row) => this.#poll(row),
      onError: (error) => log.warn(errorFields(error), 'settling background responses failed; retrying'),
    });
  }

  close(): Promise<void> {
    return this.#loop.close();
  }

  async #poll(call: BackgroundCall): Promise<void> {
    const { backgroundStore: store, instance } = this.#relay;
    const settle = (ending: EventOf<'request.settled' | 'request.abandoned'>): Promise<void> =>
      store.settle(instance.appender.instance, ending);
    if (call.ending !== null) return settle(JSON.parse(call.ending) as EventOf<'request.settled'>);
    const facts = readFacts(call.call) as BackgroundFacts;
    const verdict = judgePoll(await this.#ask(call), facts, call.ageMs);
    if (this.#loop.signal.aborted) return store.postpone(call.request, 0);
    switch (verdict.kind) {
      case 'running':
        return store.postpone(call.request, verdict.nextMs);
      case 'ended':
        return settle(endingOf(facts, call, verdict.end, call.ageMs));
      case 'lost':
        this.#log.warn(
          { request: call.request, upstream: call.upstream },
          'background response lost; its reservation is charged',
        );
        return settle(lostEnding(facts, call));
    }
  }

  async #ask({ id, upstream: name, credential }: BackgroundCall): Promise<Polled> {
    const upstream = this.#relay.upstreams.get(name);
    const pool = upstream?.pools.find((each) => each.credential === credential);
    if (!upstream || !pool) return null;
    try {
      const signal = AbortSignal.any([this.#loop.signal, AbortSignal.timeout(STORED_REPLY_MS)]);
      const path = `/responses/${encodeURIComponent(id)}`;
      const { status, body } = await pool.exchange({ method: 'GET', path, signal });
      const bytes = new ByteCollector();
      for await (const chunk of body) {
        bytes.push(chunk);
        if (bytes.length > JSON_REPLY_BYTES_MAX) return null;
      }
      return { status, bytes: bytes.take() ?? Buffer.alloc(0), redactor: upstream.redactor };
    } catch {
      // Its connection pool reports failures; the provider is asked again.
      return null;
    }
  }
}
