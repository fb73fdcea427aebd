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
  readonly #polling = new Set<Promise<void>>();
  readonly #stopped = new AbortController();
  /** Until the next look; none while one runs. */
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> | null = null;
  #activeUntilMs = -Infinity;

  constructor(relay: Relay, log: Logger) {
    this.#relay = relay;
    relay.backgroundStore.onDue = () => this.#hasten();
    this.#log = log;
    this.#wait();
  }

  /** Ends the requests in flight; another server, or the next one, takes their responses over. */
  async close(): Promise<void> {
    this.#stopped.abort();
    clearTimeout(this.#timer);
    await this.#looking;
    await Promise.all(this.#polling);
  }

  #wait(): void {
    if (this.#stopped.signal.aborted) return;
    const isActive = this.#polling.size > 0 || performance.now() < this.#activeUntilMs;
    const pauseMs = isActive ? BACKGROUND_LOOK_MS : BACKGROUND_IDLE_LOOK_MS;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#looking = this.#look().finally(() => this.#wait());
    }, pauseMs).unref();
  }

  /** A response of this server's is or becomes due. */
  #hasten(): void {
    const wasIdle = performance.now() >= this.#activeUntilMs;
    this.#activeUntilMs = performance.now() + BACKGROUND_ACTIVE_MS;
    if (!wasIdle || this.#timer === undefined) return;
    clearTimeout(this.#timer);
    this.#wait();
  }

  async #look(): Promise<void> {
    const { backgroundStore: store, instance } = this.#relay;
    try {
      await store.releaseAll();
      const free = POLLS_MAX - this.#polling.size;
      if (free === 0) return;
      const due = await store.takeDue(instance.appender.instance, free);
      if (due.length > 0) this.#activeUntilMs = performance.now() + BACKGROUND_ACTIVE_MS;
      for (const call of due) {
        const poll = this.#poll(call)
          .catch((error: unknown) => this.#noteFailure(error))
          .finally(() => this.#polling.delete(poll));
        this.#polling.add(poll);
      }
    } catch (error) {
      this.#noteFailure(error);
    }
  }

  /** Without an effect the call is due again when it is no longer taken. */
  async #poll(call: BackgroundCall): Promise<void> {
    const { backgroundStore: store, instance } = this.#relay;
    const settle = (ending: EventOf<'request.settled' | 'request.abandoned'>): Promise<void> =>
      store.settle(instance.appender.instance, ending);
    if (call.ending !== null) return settle(JSON.parse(call.ending) as EventOf<'request.settled'>);
    const facts = readFacts(call.call) as BackgroundFacts;
    const verdict = judgePoll(await this.#ask(call), facts, call.ageMs);
    if (this.#stopped.signal.aborted) return store.postpone(call.request, 0);
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
      const signal = AbortSignal.any([this.#stopped.signal, AbortSignal.timeout(STORED_REPLY_MS)]);
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

  #noteFailure(error: unknown): void {
    this.#log.warn(errorFields(error), 'settling background responses failed; retrying');
  }
}
