import type { EventOf } from '#db/events/events.ts';
import type { BatchWire } from '#server/batches/batch-wire.ts';
import type { BatchStore } from '#server/batches/batch-store.ts';
import {
  ENDING_BYTES_MAX,
  ENDINGS_PER_CHUNK,
  OUTPUT_LINE_BYTES_MAX,
  TRANSFER_IDLE_MS,
} from '#server/batches/bounds.ts';
import { type EndingBatch, lineEnding } from '#server/batches/end-lines.ts';
import { IdleTimeout } from '#server/batches/idle-timeout.ts';
import { endOfLine, type OutputLine } from '#server/batches/output-line.ts';
import type { UpstreamConnectionPool } from '#server/upstreams/connection-pool.ts';
import { LineSplitter } from '#server/wire/line-splitter.ts';
import type { Redactor } from '#server/wire/redactor.ts';

export type OutputOptions = {
  store: Pick<BatchStore, 'lines' | 'settle' | 'keepTaken'>;
  instance: number;
  batch: EndingBatch;
  wire: BatchWire;
  pool: UpstreamConnectionPool;
  redactor: Redactor;
  /** Ends it, with the server. */
  signal: AbortSignal;
};

/** Settles the lines of a batch by its output, some hundred at a time, whatever their order. */
export class OutputSettlement {
  readonly #options: OutputOptions;
  /** Lines with a reply that is no error. */
  readonly succeeded = new Set<string>();
  #pending = new Map<string, OutputLine>();
  #pendingBytes = 0;

  constructor(options: OutputOptions) {
    this.#options = options;
  }

  /**
   * @param path of an output.
   * @returns false: it isn't there, or not as a whole. Lines that were read are settled anyway.
   */
  async settle(path: string): Promise<boolean> {
    const { pool, signal, wire } = this.#options;
    using idle = new IdleTimeout(TRANSFER_IDLE_MS);
    const until = AbortSignal.any([signal, idle.signal]);
    const splitter = new LineSplitter(OUTPUT_LINE_BYTES_MAX);
    try {
      const reply = await pool.exchange({
        method: 'GET',
        path,
        accept: '*/*',
        headers: wire.headers,
        signal: until,
      });
      if (reply.status !== 200) {
        for await (const _ of reply.body);
        return false;
      }
      for await (const chunk of reply.body) {
        idle.touch();
        for (const line of splitter.push(chunk)) await this.#add(line);
        idle.touch();
      }
      await this.#add(splitter.end());
    } catch (error) {
      if (signal.aborted) throw error;
      return false;
    } finally {
      if (!signal.aborted) await this.#flush();
    }
    return true;
  }

  async #add(bytes: Buffer): Promise<void> {
    const line = this.#options.wire.readOutput(bytes);
    if (line === null) return;
    // Of two lines with one id the first counts, unless only the other has a reply.
    const known = this.#pending.get(line.customId);
    if (known === undefined || (known.reply === null && line.reply !== null))
      this.#pending.set(line.customId, line);
    if (line.reply !== null && line.reply.status < 300) this.succeeded.add(line.customId);
    this.#pendingBytes += bytes.length;
    if (this.#pending.size >= ENDINGS_PER_CHUNK || this.#pendingBytes >= ENDING_BYTES_MAX)
      await this.#flush();
  }

  async #flush(): Promise<void> {
    const { store, instance, batch, redactor } = this.#options;
    const pending = this.#pending;
    this.#pending = new Map();
    this.#pendingBytes = 0;
    if (pending.size === 0) return;
    const open = await store.lines(batch.batch, [...pending.keys()]);
    const endings: EventOf<'request.settled'>[] = open.map((line) => {
      const output = pending.get(line.custom_id) as OutputLine;
      const { route } = batch.facts.accepted;
      return lineEnding(batch, line, endOfLine(output, line, route, redactor));
    });
    if (endings.length === 0) return;
    await store.settle(instance, batch.batch, endings);
    await store.keepTaken(instance, batch.batch);
  }
}
