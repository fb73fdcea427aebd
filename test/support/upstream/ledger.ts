/**
 * What the scripted upstream itself knows of every call: the oracle that the log and the client's
 * view are compared with. A row is plain data, so that it reads the same in this process and from
 * `GET /__ledger`. Counts are raised only when the whole thing had been handed to the socket; a
 * client may have received less, never more.
 */
export type Usage = {
  prompt: number;
  completion: number;
  cached: number;
  /** Absent: 0. */
  written?: number;
  /** Absent: 0. */
  searches?: number;
  seconds?: number;
  reasoning: number;
};

/**
 * How an attempt ended, seen from the upstream. `complete`: the body ended properly after its
 * finish_reason (an SSE body without [DONE] included). `stopped`: it ended properly before that.
 * `hung`: the upstream fell silent, or sent only comments. `refused`: a status other than 2xx.
 * `client_closed`: the other side left while the script still had something to do.
 */
export type Ended =
  | 'open'
  | 'complete'
  | 'stopped'
  | 'cut'
  | 'reset'
  | 'hung'
  | 'error_event'
  | 'refused'
  | 'garbage'
  | 'client_closed';

export type Attempt = {
  /** Counts from 1 in the order of arrival. */
  attempt: number;
  /** When the request had been read, in ms since 1970. */
  at: number;
  /** Which connection it came over: equal numbers show a reused one. */
  connection: number;
  /** What the client sees as the reply's `id`. */
  id: string;
  /** The route that was asked, without query. */
  path: string;
  model: string | null;
  /** The request's `user` field, by which a test finds its attempts. */
  user: string | null;
  sse: boolean;
  authorized: boolean;
  headers: [name: string, value: string][];
  /** The request's `x-request-id` header. */
  requestId: string | null;
  askedUsage: boolean;
  bodyBytes: number;
  bodySha256: string;
  /** Null until a status line was sent. */
  status: number | null;
  tokensSent: number;
  contentBytesSent: number;
  /** Bytes of the reply's body, without the framing. */
  replyBytesSent: number;
  /** All bytes of the reply: head, framing and body. */
  bytesSent: number;
  /** The finish_reason went out (of a JSON body: all of it). */
  finishSent: boolean;
  doneSent: boolean;
  /** The newest usage that went out, whole and readable. */
  usageReported: Usage | null;
  /** False for a running total that could have grown. */
  usageIsFinal: boolean;
  /** When it went out, in ms since 1970; null: none did. */
  usageAt: number | null;
  clientClosedEarly: boolean;
  ended: Ended;
  /** In ms since 1970; null while it is open. */
  endedAt: number | null;
};

/** A request for anything but a call of a model, a followed redirect for example. */
export type Visit = { at: number; method: string; path: string; query: string; authorization: string | null };

/** A ledger that forgets is no oracle: past this the upstream fails loudly instead. */
const ROWS_MAX = 1_000_000;
/**
 * Request and reply bodies are kept for comparison up to here, each and in all; longer ones only as a digest.
 */
const KEPT_BYTES_MAX_EACH = 2 * 1024 ** 2;
const KEPT_BYTES_MAX_ALL = 256 * 1024 ** 2;
const WAIT_MS = 120_000;
const ROWS_SHOWN = 5;

type Waiter = { condition: (attempts: readonly Attempt[]) => boolean; resolve: () => void };
type Kept = { request: Buffer | null; reply: Buffer[] | null };

export type Ledger = {
  readonly attempts: readonly Attempt[];
  readonly visits: Visit[];
  /** Adds a row. @throws {Error} when the ledger is full. */
  open(attempt: Attempt, body: Buffer): void;
  /** Keeps body bytes that are about to be handed to the socket and counted in the row. */
  keepReply(attempt: Attempt, bytes: Buffer): void;
  /** Tells those who wait that a row has changed. */
  changed(): void;
  /**
   * Waits until the rows satisfy a condition, which is retried whenever one changes.
   * @throws {Error} after `timeoutMs`, showing the newest rows.
   */
  until(condition: (attempts: readonly Attempt[]) => boolean, timeoutMs?: number): Promise<void>;
  /** The request's body as it been received. @throws {Error} when it was too long to be kept. */
  requestBody(attempt: number): Buffer;
  /** The reply's body as it was sent, without HTTP's framing. @throws {Error} when too long to be kept. */
  replyBody(attempt: number): Buffer;
};

/** An empty ledger. */
export function createLedger(): Ledger {
  const attempts: Attempt[] = [];
  const kept = new Map<number, Kept>();
  const waiters = new Set<Waiter>();
  let keptBytes = 0;

  function fits(already: number, more: number): boolean {
    return already + more <= KEPT_BYTES_MAX_EACH && keptBytes + more <= KEPT_BYTES_MAX_ALL;
  }

  function changed(): void {
    for (const waiter of waiters) {
      if (!waiter.condition(attempts)) continue;
      waiters.delete(waiter);
      waiter.resolve();
    }
  }

  return {
    attempts,
    visits: [],
    changed,
    open(attempt, body) {
      if (attempts.length >= ROWS_MAX) throw new Error(`the ledger is full (${ROWS_MAX} attempts)`);
      const keepBody = fits(0, body.length);
      if (keepBody) keptBytes += body.length;
      kept.set(attempt.attempt, { request: keepBody ? body : null, reply: [] });
      attempts.push(attempt);
      changed();
    },
    keepReply(attempt, bytes) {
      const entry = kept.get(attempt.attempt);
      if (!entry?.reply) return;
      if (fits(attempt.replyBytesSent, bytes.length)) {
        entry.reply.push(bytes);
        keptBytes += bytes.length;
      } else {
        entry.reply = null;
        keptBytes -= attempt.replyBytesSent;
      }
    },
    until(condition, timeoutMs = WAIT_MS) {
      return new Promise((resolve, reject) => {
        if (condition(attempts)) return resolve();
        const timer = setTimeout(() => {
          waiters.delete(waiter);
          const newest = attempts.slice(-ROWS_SHOWN).map((row) => JSON.stringify(row));
          reject(new Error(`the ledger did not come to this within ${timeoutMs} ms:\n${newest.join('\n')}`));
        }, timeoutMs);
        const waiter: Waiter = {
          condition,
          resolve() {
            clearTimeout(timer);
            resolve();
          },
        };
        waiters.add(waiter);
      });
    },
    requestBody(attempt) {
      const body = kept.get(attempt)?.request;
      if (!body) throw new Error(`the request body of attempt ${attempt} was not kept`);
      return body;
    },
    replyBody(attempt) {
      const body = kept.get(attempt)?.reply;
      if (!body) throw new Error(`the reply body of attempt ${attempt} was not kept`);
      return Buffer.concat(body);
    },
  };
}
