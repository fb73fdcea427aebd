import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import { ACKNOWLEDGED_BATCHES_MAX } from '#db/bounds.ts';
import { SHARD } from '#db/log/append.ts';
import { db, rowsOf } from '#db/schema/query.ts';

/** Events that the database acknowledged and no longer has, by their positions. */
export type LostEvents = {
  instance: number;
  /** The newest lost batch. */
  batchNo: number;
  first: number;
  last: number;
};

/** The log lacks events that it had acknowledged: a standby without them was promoted, for instance. */
export class LostEventsError extends Error {
  override name = 'LostEventsError';
  constructor({ first, last }: LostEvents) {
    super(
      `the log lacks the events at positions ${first} to ${last}, which PostgreSQL had acknowledged: a ` +
        'standby without them was promoted, or an older copy restored. Nothing is recorded until "daybook ' +
        'log new-epoch" gives them up and this server is restarted, or the events are back',
    );
  }
}

/**
 * The newest batches of an instance that the database acknowledged. After each reconnection the newest one is
 * looked up, so that a PostgreSQL that lost it is found before anything is appended.
 */
export class AcknowledgedBatches {
  readonly #instance: number;
  // Numbers in place, because objects of each batch would fill the old generation.
  readonly #nos = new Float64Array(ACKNOWLEDGED_BATCHES_MAX);
  readonly #firsts = new Float64Array(ACKNOWLEDGED_BATCHES_MAX);
  readonly #lasts = new Float64Array(ACKNOWLEDGED_BATCHES_MAX);
  #added = 0;

  constructor(instance: number) {
    this.#instance = instance;
  }

  add(no: number, count: number, last: number): void {
    const at = this.#added % ACKNOWLEDGED_BATCHES_MAX;
    this.#nos[at] = no;
    this.#firsts[at] = last - count + 1;
    this.#lasts[at] = last;
    this.#added += 1;
  }

  /** Compares with the log. @returns null if nothing is lost. */
  async findLost(client: ClientBase): Promise<LostEvents | null> {
    if (this.#added === 0) return null;
    const length = Math.min(this.#added, ACKNOWLEDGED_BATCHES_MAX);
    const nos = [...this.#nos.subarray(0, length)];
    const lasts = [...this.#lasts.subarray(0, length)];
    const query = db
      .selectFrom('daybook.log_batch')
      .select('batch_no')
      .where('shard', '=', SHARD)
      .where('instance', '=', this.#instance)
      .where(
        sql<boolean>`(batch_no, last_position) in
          (select * from unnest(${nos}::bigint[], ${lasts}::bigint[]))`,
      );
    const rows = await rowsOf(client, query);
    const kept = new Set(rows.map(({ batch_no }) => Number(batch_no)));
    const newest = (this.#added - 1) % ACKNOWLEDGED_BATCHES_MAX;
    const [batchNo = 0, last = 0] = [this.#nos[newest], this.#lasts[newest]];
    if (kept.has(batchNo)) return null;
    const first = this.#firsts
      .subarray(0, length)
      .reduce((least, at, index) => (kept.has(this.#nos[index] ?? 0) ? least : Math.min(least, at)), last);
    return { instance: this.#instance, batchNo, first, last };
  }
}
