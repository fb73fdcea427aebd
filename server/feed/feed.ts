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
import { errorFields, type Logger } from '#server/process/logger.ts';

/** What somebody asks to see, and by which right. */
export type Viewing = {
  right: ViewerPermission;
  scope: Scope;
  filter: RequestFilter;
  /** The position up to which it has seen everything; null: it begins now. */
  after: number | null;
};

/** What runs while there are viewers. */
type Run = { tail: Tail; close(): Promise<void> };

const PROGRESS_CHANNEL = 'daybook_progress';
const PROJECTED_CHANNEL = 'daybook_projected';

const FEED_FULL = new ApiError('relay_overloaded', {
  message: 'This server has too many live feed connections. Try again.',
});
const TOO_MANY_VIEWERS = new ApiError('rate_limit_exceeded', {
  message: `Too many live feed connections: a key or member may have ${VIEWERS_PER_KEY_MAX}. Close one first.`,
});

/**
 * The live feed of one process. It follows the log itself, and only while it has viewers: so it
 * works when the worker is down, and calls are shown before they end. A page of the log becomes a
 * message or a few for each audience, which all its viewers share.
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
  /** Viewers by whose they are, and how many places are taken in all. */
  readonly #places = new KeyedSemaphore();
  #taken = 0;
  #run: Promise<Run> | null = null;
  #resting: Promise<void> = Promise.resolve();

  /**
   * @param watch what is watched by others is told to it from the start, whether there are viewers here or
   * not.
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
        // That it could not begin is told to those who asked for it.
        this.#run
          ?.then(({ tail }) => this.#viewers.sendProgress(calls, tail.position))
          .catch(() => undefined);
      },
      onRemote: (payloads) => this.#say(PROGRESS_CHANNEL, payloads),
    });
    relay.readModel.onChange((accounts) => this.#viewers.reevaluate(accounts));
  }

  /** How many look on here. */
  get viewers(): number {
    return this.#taken;
  }

  /** Takes a place for a viewer of a key or a person. @returns what gives it back, or why there is none. */
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
   * Gets ready for a viewer that has a place.
   * @returns what takes it in, to be called with its connection as soon as there is one.
   * @throws {Error} when the store is away.
   */
  async open(viewing: Viewing): Promise<(socket: WebSocket) => void> {
    const opening = (this.#run ??= this.#begin());
    try {
      const { tail } = await opening;
      // A viewer may come from a server that is a little ahead; beyond the head of the log nobody was.
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
      heard: (position) => this.#relay.readModel.heard(position),
      onPage: (events, from) => this.#tellPage(events, from),
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

  /** Looks at once who may look on no more. */
  closeEnded(): void {
    this.#viewers.closeEnded();
  }

  #tellPage(events: readonly Placed[], from: number): void {
    this.#viewers.sendPage(new LivePage(events, this.#planOf), from);
  }

  #say(channel: string, payloads: readonly string[]): void {
    this.#store.notify(channel, payloads).catch((error: unknown) => {
      this.#log.warn(errorFields(error), 'live feed notification to other servers failed');
    });
  }

  /** Nobody looks on any more. Resolves when all that ran for viewers has ended; never rejects. */
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

  /** Ends it: viewers are told to connect elsewhere. */
  async close(): Promise<void> {
    this.#progress.close();
    await this.#viewers.close();
    await this.#rest();
    await this.#store.close();
  }
}
