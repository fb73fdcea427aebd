import type { Client, ClientConfig } from 'pg';
import { RECONNECT_FIRST_MS, RECONNECT_MAX_MS } from '#db/bounds.ts';
import { StoreClient } from '#db/postgres/client.ts';
import { closeClient } from '#db/postgres/connect.ts';
import type { Placed } from '#db/events/events.ts';
import {
  allReadable,
  PAGE_ROWS,
  type Read,
  readHead,
  readRows,
  type Scope,
  UnreadableEventError,
} from '#db/log/read.ts';

/**
 * Following the log.
 *
 * A follower is always in one of three modes. *Connecting*: it opens a connection, LISTENs, and
 * falls back here after any error, with a growing pause. *Reading*: it takes page after page above
 * its position until a page comes back short. *Waiting*: it sleeps until a notification or the poll
 * interval, whichever is first, then reads again.
 *
 * Nothing is skipped, because positions are dense and become visible in order: whatever is above
 * the position that was reached has not been seen, and whatever is below has. Notifications only
 * make it prompt; a lost one costs at most one poll interval.
 */
export type FollowOptions = {
  /** Opens a connection of the follower's own; it is closed when the follower ends or fails. */
  config: ClientConfig;
  scope: Scope;
  /** The position already reached; events above it are handed on. */
  after: number;
  /**
   * Other channels to LISTEN on, with a handler for their notifications, which must not throw.
   * Notifications sent while the connection is lost are missed.
   */
  channels?: Readonly<Record<string, (payload: string) => void>>;
  /** Called after each complete look at the log, with the head seen: "known to be current then". */
  onCurrent?: (head: number) => void;
  /** Called with each failure of the connection or the log; the follower goes on by itself. */
  onError?: (error: unknown) => void;
  /** A pause after a read, so that a busy log is read in fewer, larger pages. Default 5 ms. */
  pauseMs?: number;
  /** How long a missed notification may go unnoticed. Default 1 s. */
  pollMs?: number;
} & (FollowEvents | FollowRows);

type FollowEvents = {
  /** Gets each page in order. The next page is read when its promise has resolved. */
  onPage: (events: Placed[]) => void | Promise<void>;
  /**
   * Gets each row that can't be read, which is then skipped. Absent: the follower does not go past such a
   * row, unless any reader may skip it, and retries it.
   */
  onUnreadable?: (error: UnreadableEventError) => void;
};

type FollowRows = {
  /** Gets each page in order, with the rows that can't be read in their places. */
  onRows: (rows: readonly Read[]) => void;
};

export type Follower = {
  /** The position of the last event that was handed on. */
  readonly position: number;
  /** Ends the follower; resolves when its connection is closed and no page is being handled. */
  close(): Promise<void>;
};

/** Starts to follow the log; see {@link FollowOptions}. Never throws: failures go to `onError`. */
export function follow(options: FollowOptions): Follower {
  const { pauseMs = 5, pollMs = 1_000, channels = {} } = options;
  let position = options.after;
  /** The head at the last complete look. */
  let lastHead: number | null = null;
  let closed = false;
  let wake = (): void => {};
  let woken = false;

  /** Resolves true as soon as `wake` was called, also when that was before; false after `ms`. */
  const sleep = (ms: number): Promise<void> => {
    if (woken || closed) {
      woken = false;
      return Promise.resolve();
    }
    return new Promise((resolve) => {
      const timer = setTimeout(() => wake(), ms);
      wake = () => {
        clearTimeout(timer);
        wake = () => {};
        woken = false;
        resolve();
      };
    });
  };
  const notice = (): void => {
    woken = true;
    wake();
  };

  async function readOn(client: Client): Promise<void> {
    // The head is read first: all that is at or below it is in the pages that follow. Who does not
    // ask for it is spared the round trip.
    const head = options.onCurrent ? await readHead(client) : 0;
    // With the same head as before there is nothing above the position.
    let next: Promise<Read[]> | null =
      options.onCurrent && head === lastHead ? null : readRows(client, position, options.scope);
    while (next !== null) {
      const page: Read[] = await next;
      if (closed) return;
      const last = page.at(-1)?.position ?? position;
      // The database reads the next page while this one is handled.
      next = page.length === PAGE_ROWS ? readRows(client, last, options.scope) : null;
      // The next iteration handles a rejection, unless this page fails first.
      next?.catch(() => {});
      if (page.length > 0) await handle(page);
      position = last;
    }
    lastHead = head;
    options.onCurrent?.(head);
  }

  async function handle(page: readonly Read[]): Promise<void> {
    if ('onRows' in options) return options.onRows(page);
    const events = readable(page, options);
    if (events.length > 0) await options.onPage(events);
  }

  async function once(): Promise<void> {
    const client = new StoreClient(options.config);
    let lost: Error | undefined;
    client.on('error', (error) => {
      lost = error;
      notice();
    });
    client.on('notification', ({ channel, payload = '' }) => {
      const take = channels[channel];
      if (take) take(payload);
      else notice();
    });
    try {
      await client.connect();
      await client.query('listen daybook_control');
      if (options.scope === 'all') await client.query('listen daybook_log');
      for (const channel of Object.keys(channels)) await client.query(`listen ${channel}`);
      while (!closed) {
        await readOn(client);
        failures = 0;
        await sleep(pollMs);
        if (lost) throw lost;
        if (pauseMs > 0 && !closed) await new Promise((resolve) => setTimeout(resolve, pauseMs));
      }
    } finally {
      await closeClient(client);
    }
  }

  let failures = 0;
  const done = (async () => {
    while (!closed) {
      try {
        await once();
      } catch (error) {
        if (closed) break;
        options.onError?.(error);
        await sleep(Math.min(RECONNECT_MAX_MS, RECONNECT_FIRST_MS * 2 ** failures++));
      }
    }
  })();

  return {
    get position() {
      return position;
    },
    async close() {
      closed = true;
      notice();
      await done;
    },
  };
}

function readable(page: readonly Read[], { onUnreadable }: FollowEvents): Placed[] {
  if (!onUnreadable) return allReadable(page);
  const events: Placed[] = [];
  for (const row of page) {
    if (row instanceof UnreadableEventError) onUnreadable(row);
    else events.push(row);
  }
  return events;
}
