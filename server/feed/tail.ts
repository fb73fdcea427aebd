import { setTimeout as pause } from 'node:timers/promises';
import type { ClientConfig } from 'pg';
import type { Placed } from '#db/events/events.ts';
import { follow, type Follower } from '#db/log/follow.ts';
import { FEED_PAUSE_MAX_MS, FEED_PAUSE_MS, FEED_PAUSE_SHARE } from '#server/feed/bounds.ts';

export type TailOptions = {
  config: ClientConfig;
  /** The position from which the log is followed. */
  after: number;
  /**
   * Resolves when this process acts by the log up to here: whoever is told of a change may ask at once what
   * is so now.
   */
  heard: (position: number) => Promise<unknown>;
  /** Tells the viewers a page, which begins behind `from`. */
  onPage: (events: readonly Placed[], from: number) => void;
  channels: Readonly<Record<string, (payload: string) => void>>;
  onUnreadable: (position: number) => void;
  onError: (error: unknown) => void;
};

/**
 * The end of the log, followed while somebody looks on. The first event after a silence is told at
 * once; after each page there is a pause, which grows with the time that telling took. So a few
 * viewers hear of everything within milliseconds, and a thousand don't take the process from its calls.
 */
export class Tail {
  readonly #follower: Follower;
  readonly #closing = new AbortController();
  #position: number;

  constructor({ config, after, heard, onPage, channels, onUnreadable, onError }: TailOptions) {
    this.#position = after;
    this.#follower = follow({
      config,
      scope: 'all',
      after,
      channels,
      onError,
      // It is put aside by the projections, which raise the alarm. Here it has nothing to show.
      onUnreadable: ({ position }) => onUnreadable(position),
      pauseMs: 0,
      onPage: async (events) => {
        const changed = events.findLast(({ event }) => 'actor' in event);
        if (changed) await heard(changed.position);
        const startedMs = performance.now();
        const from = this.#position;
        this.#position = events.at(-1)?.position ?? from;
        onPage(events, from);
        const tookMs = performance.now() - startedMs;
        const pauseMs = Math.min(FEED_PAUSE_MAX_MS, Math.max(FEED_PAUSE_MS, FEED_PAUSE_SHARE * tookMs));
        await pause(pauseMs, undefined, { signal: this.#closing.signal }).catch(() => undefined);
      },
    });
  }

  /** Everything up to here was told. */
  get position(): number {
    return this.#position;
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#follower.close();
  }
}
