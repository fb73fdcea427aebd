import type { Client } from 'pg';
import { HEARTBEAT_MS } from '#db/bounds.ts';
import { closeClient, type Store } from '#db/connect.ts';
import { heartbeat, registerInstance, retireInstance } from '#db/instance.ts';
import { FencedError } from '#db/log/append.ts';
import { CONTROL_WAITING_MAX } from '#server/bounds.ts';
import { type Batches, Control } from '#server/control.ts';
import { Refusal } from '#server/errors.ts';
import { connectRelay } from '#server/store.ts';

type Open = { client: Client; batches: Batches; beat: NodeJS.Timeout; isBroken: boolean };

/**
 * From where a server process changes accounts, keys and plans for people: an instance of its own
 * with one connection, opened at the first change. Changes are made one after the other; they are
 * rare, and a queue says so when it is full. A connection that broke, or an instance that others
 * declared dead, is left, and the next change begins with a new one.
 */
export class ControlSeat {
  readonly #store: Store;
  #open: Open | null = null;
  #waiting = 0;
  #last: Promise<unknown> = Promise.resolve();

  constructor(store: Store) {
    this.#store = store;
  }

  /**
   * Runs one change.
   * @param actor who makes it, as the events tell: `member/<id>`.
   * @returns what `use` returns; 503 where too many wait.
   */
  async change<T>(actor: string, use: (control: Control, client: Client) => Promise<T>): Promise<T | Refusal> {
    if (this.#waiting >= CONTROL_WAITING_MAX) return new Refusal('relay_busy');
    this.#waiting++;
    const turn = this.#last.then(async () => {
      const open = await this.#opened();
      try {
        return await use(new Control(open.client, open.batches, actor), open.client);
      } catch (error) {
        if (error instanceof FencedError) open.isBroken = true;
        throw error;
      }
    });
    this.#last = turn.catch(() => {});
    try {
      return await turn;
    } finally {
      this.#waiting--;
    }
  }

  /** Leaves in order. What still waits is carried out before. */
  async close(): Promise<void> {
    await this.#last;
    await this.#leave();
  }

  async #opened(): Promise<Open> {
    if (this.#open && !this.#open.isBroken) return this.#open;
    await this.#leave();
    const client = await connectRelay(this.#store);
    const instance = await registerInstance(client, 'dashboard');
    const beat = setInterval(() => void heartbeat(client, instance, 0).catch(() => {}), HEARTBEAT_MS);
    const open: Open = { client, batches: { instance, last: 0 }, beat, isBroken: false };
    const broken = (): void => {
      open.isBroken = true;
    };
    client.on('error', broken);
    client.on('end', broken);
    this.#open = open;
    return open;
  }

  async #leave(): Promise<void> {
    const open = this.#open;
    this.#open = null;
    if (!open) return;
    clearInterval(open.beat);
    if (!open.isBroken) await retireInstance(open.client, open.batches.instance).catch(() => {});
    await closeClient(open.client);
  }
}
