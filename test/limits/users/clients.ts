import { connect, type Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { ReplyReader } from '../../../bench/driver/reply-reader.ts';
import type { Population } from './population.ts';

/**
 * The clients of the run: keep-alive connections, each with one call at a time, written by hand because they
 * share two cores with the servers. They record what each end user was answered.
 */

/** What the mock upstream reports of each call, whatever the reply's limit is. */
export const USED = 308;
/** What each call reserves: its prompt at a token per byte, and a reply of one token. */
export const RESERVED = 492;
export const MODEL = 'mock-json-20ms';
const BODY = JSON.stringify({
  model: MODEL,
  messages: [{ role: 'user', content: 'Please go on with it. '.repeat(14) }],
  max_tokens: 1,
});
/** A server that can't decide is asked again after this. */
const PUT_OFF_MS = 50;

/** What clients saw, by end user. */
export class Record {
  readonly completed: Uint8Array;
  /** Calls whose connection broke: the log says whether they were accepted. */
  readonly cut: Uint8Array;
  readonly rejected: Uint8Array;
  /** When calls were rejected: from when they were sent until the reply, in milliseconds since 1970. */
  readonly rejections: { user: number; sentMs: number; endMs: number }[] = [];
  calls = 0;
  /** Calls that got 503, and were made again. */
  putOff = 0;
  /** Replies of any other kind, some of them in words. */
  faults: string[] = [];

  constructor(users: number) {
    this.completed = new Uint8Array(users);
    this.cut = new Uint8Array(users);
    this.rejected = new Uint8Array(users);
  }
}

type Answer = { status: number; body: string } | null;

/** A server as its connections find it: its port changes when it is started again. */
export type Target = { port: number; isUp: boolean; completed: number; running: number };

class Connection {
  readonly #target: Target;
  #socket: Socket | null = null;
  #status = 0;
  #body = '';
  #answer: ((answer: Answer) => void) | null = null;

  constructor(target: Target) {
    this.#target = target;
  }

  /** @returns null where the connection broke. */
  call(key: string, user: string): Promise<Answer> {
    const socket = (this.#socket ??= this.#connect());
    this.#target.running++;
    this.#body = '';
    return new Promise((resolve) => {
      this.#answer = resolve;
      socket.write(
        `POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${key}\r\n` +
          `content-type: application/json\r\nx-daybook-user: ${user}\r\n` +
          `content-length: ${BODY.length}\r\n\r\n${BODY}`,
      );
    });
  }

  close(): void {
    this.#socket?.destroy();
    this.#socket = null;
  }

  #connect(): Socket {
    const socket = connect({ port: this.#target.port, host: '127.0.0.1', noDelay: true });
    const reader = new ReplyReader({
      onHead: (status) => void (this.#status = status),
      onBody: (bytes) => {
        if (this.#status !== 200) this.#body += bytes.toString('latin1');
      },
      onEnd: (isClosing) => {
        if (isClosing) this.close();
        this.#end({ status: this.#status, body: this.#body });
      },
    });
    const lose = (): void => {
      if (this.#socket !== socket) return;
      this.close();
      this.#end(null);
    };
    socket.on('data', (bytes) => reader.feed(bytes as Buffer));
    socket.on('error', lose).on('close', lose);
    return socket;
  }

  #end(answer: Answer): void {
    const resolve = this.#answer;
    if (resolve === null) return;
    this.#answer = null;
    this.#target.running--;
    if (answer?.status === 200) this.#target.completed++;
    resolve(answer);
  }
}

export class Clients {
  readonly record: Record;
  readonly #population: Population;
  readonly #keys: readonly string[];

  constructor(options: { population: Population; keys: readonly string[] }) {
    this.#population = options.population;
    this.#keys = options.keys;
    this.record = new Record(options.population.users);
  }

  /**
   * Makes calls over so many connections to each server until there are no more.
   * @param next the end user of the next call; null: there is none.
   */
  async run(targets: readonly Target[], connections: number, next: () => number | null): Promise<void> {
    const again: number[] = [];
    await Promise.all(
      targets.flatMap((target) =>
        Array.from({ length: connections }, async () => {
          const connection = new Connection(target);
          for (;;) {
            if (!target.isUp) {
              if (targets.every(({ isUp }) => !isUp)) throw new Error('no server is up');
              await wait(PUT_OFF_MS);
              continue;
            }
            const user = again.pop() ?? next();
            if (user === null) break;
            if (!(await this.#call(connection, user))) {
              again.push(user);
              await wait(PUT_OFF_MS);
            }
          }
          connection.close();
        }),
      ),
    );
  }

  /** @returns whether it was decided. */
  async #call(connection: Connection, user: number): Promise<boolean> {
    const { record } = this;
    const key = this.#keys[this.#population.accountOf(user)] as string;
    const add = (counts: Uint8Array, more: number): void => void (counts[user] = (counts[user] ?? 0) + more);
    const sentMs = Date.now();
    const answer = await connection.call(key, this.#population.nameOf(user));
    if (answer?.status === 503) {
      record.putOff++;
      return false;
    }
    record.calls++;
    if (answer === null) add(record.cut, 1);
    else if (answer.status === 200) add(record.completed, 1);
    else if (answer.status === 429 && isOfEndUser(answer.body)) {
      add(record.rejected, 1);
      record.rejections.push({ user, sentMs, endMs: Date.now() });
    } else if (record.faults.length < 20) record.faults.push(`${answer.status} ${answer.body.slice(0, 300)}`);
    return true;
  }
}

function isOfEndUser(body: string): boolean {
  const { error } = JSON.parse(body) as { error: { code?: string; limit?: { scope?: string } } };
  return error.code === 'insufficient_quota' && error.limit?.scope === 'end_user';
}
