import { setTimeout as pause } from 'node:timers/promises';
import type { ClientConfig } from 'pg';
import type { Placed } from '#db/events/events.ts';
import { follow, type Follower } from '#db/log/follow.ts';
import { FEED_PAUSE_MAX_MS, FEED_PAUSE_MS, FEED_PAUSE_SHARE } from '#server/feed/bounds.ts';

export type TailOptions = {
  config: ClientConfig;
  /** The position to follow the log from. */
  after: number;
  /**
   * Resolves when this process's read model has reached a position, so that a viewer's requests after a
   * notice see the change.
   */
  heard: (position: number) => Promise<unknown>;
  /** Sends a page, which begins after `from`, to the viewers. */
  onPage: (events: readonly Placed[], from: number) => void;
  channels: Readonly<Record<string, (payload: string) => void>>;
  onUnreadable: (position: number) => void;
  onError: (error: unknown) => void;
};

/**
 * Follows the end of the log while there are viewers. The first event after a silence is sent at once; after
 * each page there is a pause that grows with the time to send it. So a few viewers get every event within
 * milliseconds, and a thousand don't block calls.
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
      // The projections park it and raise an alert. The feed has nothing to show.
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

  /** Everything up to here was sent. */
  get position(): number {
    return this.#position;
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#follower.close();
  }
}
