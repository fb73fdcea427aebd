import type { Selectable } from 'kysely';
import { DatabaseError } from 'pg';
import { type Enforcement, ENFORCEMENT_OF, WINDOW_KIND_OF, type WindowKind } from '#db/limits/limits.ts';
import { type Meter, METER_OF } from '#db/limits/meters.ts';
import { PER_HOLDER } from '#db/limits/subjects.ts';
import type { QuotaWindowTable } from '#db/schema/tables.ts';
import { QUOTAS_EVERY_MS, QUOTAS_READ_MAX } from '#server/feed/bounds.ts';
import type { FeedStore } from '#server/feed/store.ts';
import type { FrameOf } from '#server/contract/frames.ts';

export type Quota = FrameOf<'quota'>;

export type QuotaWatchOptions = {
  store: FeedStore;
  /** Changes after this position are reported. */
  after: number;
  /** The accounts watched here; null: all. */
  accounts: () => readonly string[] | null;
  onQuotas: (quotas: readonly Quota[]) => void;
  onError: (error: unknown) => void;
};

/**
 * Reports changed quota windows of accounts and keys, read after the projector has advanced, at most four
 * times a second. They show the projections' state, which enforcement never uses.
 */
export class QuotaWatch {
  readonly #options: QuotaWatchOptions;
  #position: number;
  #timer: NodeJS.Timeout | undefined;
  #nextMs = 0;
  #mode: 'idle' | 'reading' | 'closed' = 'idle';
  #isDue = false;

  constructor(options: QuotaWatchOptions) {
    this.#options = options;
    this.#position = options.after;
  }

  /** The projections have advanced. */
  moved(): void {
    this.#isDue = true;
    if (this.#mode !== 'idle' || this.#timer !== undefined) return;
    this.#timer = setTimeout(() => void this.#read(), Math.max(0, this.#nextMs - performance.now()));
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#mode = 'closed';
  }

  get #isClosed(): boolean {
    return this.#mode === 'closed';
  }

  async #read(): Promise<void> {
    const { store, accounts, onQuotas, onError } = this.#options;
    this.#timer = undefined;
    this.#mode = 'reading';
    this.#isDue = false;
    try {
      const quotas = await store.run((client) => readQuotas(client, accounts(), this.#position));
      if (this.#isClosed) return;
      this.#position = quotas.at(-1)?.position ?? this.#position;
      if (quotas.length > 0) onQuotas(quotas);
    } catch (error) {
      // The projections don't exist yet or are being rebuilt.
      if (!(error instanceof DatabaseError && error.code === UNDEFINED_TABLE)) onError(error);
    }
    if (this.#isClosed) return;
    this.#mode = 'idle';
    this.#nextMs = performance.now() + QUOTAS_EVERY_MS;
    if (this.#isDue) this.moved();
  }
}

const UNDEFINED_TABLE = '42P01';

type Window = Selectable<QuotaWindowTable>;

const READ = `select position, subject, account, meter, window_kind, window_start,
    cap, used, held, reset_position, enforcement
  from projection.quota_window where position > $1 and per = ${PER_HOLDER}
    and ($2::text[] is null or account = any($2))
  order by position fetch first $3 rows with ties`;

type Asked = Parameters<Parameters<FeedStore['run']>[0]>[0];

async function readQuotas(
  client: Asked,
  accounts: readonly string[] | null,
  after: number,
): Promise<Quota[]> {
  const { rows } = await client.query<Omit<Window, 'begins_at'>>({
    name: 'read_quotas',
    text: READ,
    values: [after, accounts, QUOTAS_READ_MAX],
  });
  return rows.map((row) => ({
    type: 'quota',
    position: Number(row.position),
    subject: row.subject,
    account: row.account,
    meter: METER_OF.get(row.meter) as Meter,
    window: WINDOW_KIND_OF.get(row.window_kind) as WindowKind,
    window_start: row.window_start,
    cap: Number(row.cap),
    used: Number(row.used),
    reserved: Number(row.held),
    reset_position: Number(row.reset_position),
    enforcement: ENFORCEMENT_OF.get(row.enforcement) as Enforcement,
  }));
}
