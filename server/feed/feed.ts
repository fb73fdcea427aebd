import type { WebSocket } from 'ws';
import type { Store } from '#db/postgres/connect.ts';
import type { Placed } from '#db/events/events.ts';
import { readHead } from '#db/log/read.ts';
import {
  LIVE_HEARTBEAT_MS,
  VIEWERS_CHECK_MS,
  VIEWERS_MAX,
  VIEWERS_PER_KEY_MAX,
  WATCH_EVERY_MS,
} from '#server/feed/bounds.ts';
import { audienceOf, messageOf } from '#server/feed/audience.ts';
import { catchUp } from '#server/feed/catch-up.ts';
import { LIVE_VERSION } from '#server/contract/live-protocol.ts';
import type { RequestFilter } from '#server/contract/requests.ts';
import { FeedStore } from '#server/feed/store.ts';
import { LivePage, type PlanOf } from '#server/feed/page.ts';
import { ProgressReporter, readProgress } from '#server/feed/progress.ts';
import { QuotaWatch } from '#server/feed/quota-watch.ts';
import type { Scope } from '#server/read/scope.ts';
import { Tail } from '#server/feed/tail.ts';
import { Viewer } from '#server/feed/viewer.ts';
import type { ViewerPermission } from '#server/feed/viewer-permission.ts';
import { Viewers } from '#server/feed/viewers.ts';
import { type Watch, WATCHED_CHANNEL } from '#server/feed/watch.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { KeyedSemaphore } from '#server/control/keyed-semaphore.ts';
import type { Relay } from '#server/relay/relay.ts';
import type { Logger } from '#db/diagnostics/logger.ts';
import { errorFields } from '#db/diagnostics/error-fields.ts';

/** A request to view the feed, and its permission. */
export type Viewing = {
  right: ViewerPermission;
  scope: Scope;
  filter: RequestFilter;
  /** The position to resume after; null: start now. */
  after: number | null;
};

/** Running while there are viewers. */
type Run = { tail: Tail; close(): Promise<void> };

const PROGRESS_CHANNEL = 'daybook_progress';
const PROJECTED_CHANNEL = 'daybook_projected';

const FEED_FULL = new ApiError('relay_overloaded', {
  message: 'This server has too many live feed connections. Try again.',
});
const TOO_MANY_VIEWERS = new ApiError('rate_limit_exceeded', {
  message: `Too many live feed connections: the maximum is ${VIEWERS_PER_KEY_MAX}. Close one first.`,
});

/**
 * The live feed of one process. It follows the log itself, and only while it has viewers, so it works while
 * the worker is down and shows calls before they end. A page of the log becomes a few messages per audience,
 * which all its viewers share.
 */
export class Feed {
  readonly #relay: Relay;
  readonly #log: Logger;
  readonly #config: ReturnType<Store['config']>;
  readonly #store: FeedStore;
  readonly #viewers: Viewers;
  readonly #watch: Watch;
  readonly #progress: ProgressReporter;
  readonly #planOf: PlanOf;
  /** Viewers per key or member, and in total. */
  readonly #places = new KeyedSemaphore();
  #taken = 0;
  #run: Promise<Run> | null = null;
  #resting: Promise<void> = Promise.resolve();

  /**
   * @param watch receives the announcements of other processes from the start, with or without viewers here.
   */
  constructor(store: Store, relay: Relay, watch: Watch, log: Logger) {
    this.#relay = relay;
    this.#watch = watch;
    this.#log = log;
    this.#config = store.config('relay');
    this.#store = new FeedStore(store);
    this.#viewers = new Viewers(relay.readModel);
    this.#planOf = (account) => relay.readModel.account(account)?.plan ?? null;
    this.#progress = new ProgressReporter({
      running: relay.running,
      watch,
      onLocal: (calls) => {
        // A failed start is reported to the viewers that asked for it.
        this.#run
          ?.then(({ tail }) => this.#viewers.sendProgress(calls, tail.position))
          .catch(() => undefined);
      },
      onRemote: (payloads) => this.#say(PROGRESS_CHANNEL, payloads),
    });
    relay.readModel.onChange((accounts) => this.#viewers.reevaluate(accounts));
  }

  /** Connected viewers. */
  get viewers(): number {
    return this.#taken;
  }

  /** Reserves a slot for a viewer of a key or member. @returns a function that releases it, or an error. */
  reserve({ holder }: ViewerPermission): (() => void) | ApiError {
    const leave = this.#places.acquire(holder, VIEWERS_PER_KEY_MAX);
    if (!leave) return TOO_MANY_VIEWERS;
    if (this.#taken >= VIEWERS_MAX) {
      leave();
      return FEED_FULL;
    }
    this.#taken++;
    return () => {
      this.#taken--;
      leave();
      if (this.#taken === 0) void this.#rest();
    };
  }

  /**
   * Prepares for a viewer with a reserved slot.
   * @returns a function that adds the viewer, to call with its connection.
   * @throws {Error} if the store is unavailable.
   */
  async open(viewing: Viewing): Promise<(socket: WebSocket) => void> {
    const opening = (this.#run ??= this.#begin());
    try {
      const { tail } = await opening;
      // The viewer may have been connected to a server that is ahead, but no position is beyond the head of
      // the log.
      const isKnown =
        viewing.after === null ||
        viewing.after <= tail.position ||
        viewing.after <= (await this.#store.run(readHead));
      return (socket) => this.#join(socket, tail, viewing, isKnown);
    } catch (error) {
      if (this.#run === opening) await this.#rest();
      throw error;
    }
  }

  #join(socket: WebSocket, tail: Tail, { right, scope, filter, after }: Viewing, isKnown: boolean): void {
    const now = tail.position;
    const position = isKnown ? Math.max(now, after ?? now) : now;
    const viewer = new Viewer(socket, {
      right,
      audience: audienceOf(scope, filter, right.isSignedIn),
      position,
    });
    const at = new Date(this.#relay.readModel.nowMs()).toISOString();
    const { account, key } = scope;
    const from = isKnown ? (after ?? now) : now;
    viewer.sendHello(
      messageOf({
        position: from,
        at,
        frames: [
          {
            type: 'hello',
            version: LIVE_VERSION,
            position: from,
            heartbeat_ms: LIVE_HEARTBEAT_MS,
            account,
            key,
          },
        ],
      }),
    );
    this.#viewers.add(viewer);
    if (this.#watch.add(account)) this.#say(WATCHED_CHANNEL, this.#watch.payloads([account]));
    void viewer.closed.then(() => this.#leave(viewer, account));
    if (from >= now) viewer.caughtUp(isKnown);
    else void catchUp(viewer, { after: from, upTo: now }, this.#store, this.#planOf);
  }

  #leave(viewer: Viewer, account: string | null): void {
    this.#viewers.delete(viewer);
    this.#watch.delete(account);
  }

  async #begin(): Promise<Run> {
    const after = await this.#store.run(readHead);
    const quotas = new QuotaWatch({
      store: this.#store,
      after,
      accounts: () => this.#watch.accountsHere,
      onQuotas: (changed) => this.#viewers.sendQuotas(changed, tail.position),
      onError: (error) =>
        this.#log.warn(errorFields(error), 'reading changed quotas for the live feed failed'),
    });
    const tail: Tail = new Tail({
      config: this.#config,
      after,
      heard: (position) => this.#relay.readModel.untilPosition(position),
      onPage: (events, from) => this.#sendPage(events, from),
      channels: {
        [PROGRESS_CHANNEL]: (payload) =>
          this.#viewers.sendProgress(readProgress(payload, this.#watch.name), tail.position),
        [PROJECTED_CHANNEL]: () => quotas.moved(),
      },
      onUnreadable: (position) =>
        this.#log.error({ position }, "an event can't be read; the live feed leaves it out"),
      onError: (error) =>
        this.#log.warn(errorFields(error), 'live feed disconnected from the log; reconnecting'),
    });
    const looking = setInterval(() => this.#viewers.checkAll(tail.position), VIEWERS_CHECK_MS);
    const saying = setInterval(() => this.#say(WATCHED_CHANNEL, this.#watch.payloads()), WATCH_EVERY_MS);
    return {
      tail,
      async close() {
        clearInterval(looking);
        clearInterval(saying);
        quotas.close();
        await tail.close();
      },
    };
  }

  /** Closes viewers whose permission has ended, at once. */
  closeEnded(): void {
    this.#viewers.closeEnded();
  }

  #sendPage(events: readonly Placed[], from: number): void {
    this.#viewers.sendPage(new LivePage(events, this.#planOf), from);
  }

  #say(channel: string, payloads: readonly string[]): void {
    this.#store.notify(channel, payloads).catch((error: unknown) => {
      this.#log.warn(errorFields(error), 'live feed notification to other servers failed');
    });
  }

  /** Stops following the log after the last viewer has left. Resolves when stopped; never rejects. */
  #rest(): Promise<void> {
    const run = this.#run;
    this.#run = null;
    const ended = run
      ?.then(
        ({ close }) => close(),
        () => undefined,
      )
      .catch((error: unknown) => {
        this.#log.warn(errorFields(error), 'ending the live feed failed');
      });
    this.#resting = Promise.all([this.#resting, ended]).then(() => undefined);
    return this.#resting;
  }

  /** Closes the feed; viewers reconnect to another server. */
  async close(): Promise<void> {
    this.#progress.close();
    await this.#viewers.close();
    await this.#rest();
    await this.#store.close();
  }
}
