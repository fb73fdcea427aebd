import { sql } from 'kysely';
import { jsonArrayFrom } from 'kysely/helpers/postgres';
import type { ClientBase } from 'pg';
import { textOf } from '#db/audit/source/event-row.ts';
import { CHECKPOINT_JSON, readRowTexts } from '#db/audit/verify/pages.ts';
import type { CheckpointRow } from '#db/audit/verify/checkpoints.ts';
import type { ManifestFacts } from '#db/audit/verify/manifest-facts.ts';
import type { Finding } from '#db/audit/verify/report.ts';
import type { ControlRow } from '#db/audit/verify/log-verifier.ts';
import { fileName, Manifest } from '#db/archive/manifest.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { SHARD } from '#db/log/append.ts';
import { type Cell, db, onlyRowOf, type Result, rowsOf } from '#db/schema/query.ts';
import type { Tables } from '#db/schema/tables.ts';

/** Reads the tables beside the log, and compares them with the log. */

/** A row of `daybook.log_partition`. `first` and `last` are positions of events, both inclusive. */
export type PartitionRow = {
  number: number;
  name: string;
  first: number;
  last: number;
  /** Whether the bounds of the table in PostgreSQL's catalog are the same. */
  isBound: boolean;
  isArchived: boolean;
  manifest: unknown;
  openLeaves: Buffer | null;
};

/** A partition of the log in PostgreSQL's catalog, with its bounds as PostgreSQL prints them. */
export type AttachedPartition = { name: string; bounds: string };

/** The log and its tables at one point in time. */
export type DatabaseSnapshot = {
  logId: string;
  head: number;
  /** The first position that is not archived. */
  first: number;
  streams: ReadonlyMap<string, number>;
  partitions: readonly PartitionRow[];
  attached: readonly AttachedPartition[];
  /** The size of its newest checkpoint, up to which its tree is stored. */
  built: number;
  /** Checkpoints larger than the log. */
  beyond: readonly CheckpointRow[];
};

const PARTITIONS = jsonArrayFrom(
  db
    .selectFrom('daybook.log_partition')
    .select(['number', 'name', 'manifest'])
    .select(({ fn, ref, selectFrom, lit }) => [
      // JSON has them as numbers.
      sql<number>`greatest(1, ${ref('first_position')})`.as('first'),
      sql<number>`${ref('end_position')} - 1`.as('last'),
      fn
        .coalesce(
          selectFrom('pg_catalog.pg_class')
            .select(
              sql<boolean>`pg_get_expr(relpartbound, oid)
                = format('FOR VALUES FROM (%L) TO (%L)', first_position, end_position)`.as('is_bound'),
            )
            .where('oid', '=', sql<number>`to_regclass('daybook.' || quote_ident(name))`)
            .where('relispartition', '=', true),
          lit(true),
        )
        .as('isBound'),
      sql<boolean>`${ref('archived_at')} is not null`.as('isArchived'),
      sql<string | null>`encode(${ref('open_leaves')}, 'hex')`.as('openLeaves'),
    ])
    .orderBy('first_position')
    .orderBy('number'),
);
const ATTACHED = jsonArrayFrom(
  db
    .selectFrom('pg_catalog.pg_class as c')
    .innerJoin('pg_catalog.pg_inherits as i', 'i.inhrelid', 'c.oid')
    .select(({ fn }) => [
      'c.relname as name',
      fn<string>('pg_get_expr', ['c.relpartbound', 'c.oid']).as('bounds'),
    ])
    .where('i.inhparent', '=', sql<number>`'daybook.log'::regclass`)
    .orderBy('c.relname'),
);
type StreamHead = [Cell<'daybook.stream_head', 'stream'>, Cell<'daybook.stream_head', 'version'>];
// Pairs, since there is a row for each key.
const STREAMS = db
  .selectFrom('daybook.stream_head')
  .select(sql<StreamHead[] | null>`json_agg(json_build_array(stream, version))`.as('streams'));

/** All in one row: tables as JSON, so that it is one statement. */
const snapshot = () =>
  db
    .with('head', () =>
      db.selectNoFrom(({ fn, lit, selectFrom }) => {
        const event = selectFrom('daybook.log')
          .select(({ fn: inner }) => inner.max('position').as('head'))
          .where('shard', '=', SHARD);
        const batch = selectFrom('daybook.log_batch')
          .select(({ fn: inner }) => inner.max('last_position').as('head'))
          .where('shard', '=', SHARD);
        return fn<string>('greatest', [lit(0), event, batch]).as('head');
      }),
    )
    .selectFrom('head')
    .select(({ selectFrom, fn }) => [
      'head',
      selectFrom('daybook.install').select('log_id').limit(1).as('log_id'),
      fn<Result<'daybook.first_position'>>('daybook.first_position').as('first'),
      STREAMS.as('streams'),
      PARTITIONS.as('partitions'),
      ATTACHED.as('attached'),
      selectFrom('daybook.checkpoint')
        .select(({ fn: inner }) => inner.max('size').as('size'))
        .where('shard', '=', SHARD)
        .whereRef('size', '<=', 'head.head')
        .as('built'),
      selectFrom('daybook.checkpoint')
        .select(sql<CheckpointRow[] | null>`json_agg(${CHECKPOINT_JSON} order by size, epoch)`.as('rows'))
        .where('shard', '=', SHARD)
        .whereRef('size', '>', 'head.head')
        .as('beyond'),
    ]);

/** Reads everything in one statement, so that concurrent appends don't matter. */
export async function readSnapshot(client: ClientBase): Promise<DatabaseSnapshot> {
  const row = await onlyRowOf(client, snapshot());
  if (row.log_id === null) throw new StoreError('the database has no log: daybook.install is empty');
  return {
    logId: row.log_id,
    head: Number(row.head),
    first: Number(row.first),
    streams: new Map(row.streams),
    partitions: row.partitions.map((each) => ({
      ...each,
      openLeaves: each.openLeaves === null ? null : Buffer.from(each.openLeaves, 'hex'),
    })),
    attached: row.attached,
    built: Number(row.built ?? 0),
    beyond: row.beyond ?? [],
  };
}

/** A table of rows that name their shard, and the column that places them. */
type Sharded = {
  [Name in keyof Tables]: Tables[Name] extends { shard: unknown }
    ? Name extends `daybook.${infer Table}`
      ? [table: Table, column: keyof Tables[Name] & string]
      : never
    : never;
}[keyof Tables];

/** Finds the first row of each table that is of an unknown shard. */
export async function findUnknownShards(client: ClientBase): Promise<Finding[]> {
  const found: Finding[] = [];
  for (const [table, column] of [
    ['log', 'position'],
    ['log_batch', 'last_position'],
    ['log_kept', 'position'],
    ['log_node', 'number'],
    ['checkpoint', 'size'],
  ] as const satisfies Sharded[]) {
    const unknown = db
      .selectFrom(`daybook.${table}` as 'daybook.log')
      .select(['shard', sql<string>`${sql.ref(column)}`.as('at')])
      .where(({ eb, or }) => or([eb('shard', '<', SHARD), eb('shard', '>', SHARD)]))
      .orderBy('shard')
      .orderBy(sql.ref(column))
      .limit(1);
    for (const { shard, at } of await rowsOf(client, unknown))
      found.push({
        position: Number(at),
        table,
        problem: `the row at ${at} has the unknown shard ${shard}`,
      });
  }
  return found;
}

/** Compares retained control events with those of the log, as far as both are available. */
export async function compareRetained(
  client: ClientBase,
  controls: readonly ControlRow[],
  after: number,
  upTo: number,
): Promise<Finding[]> {
  const retained = new Map(
    (await readRowTexts(client, 'daybook.log_kept', after, upTo)).map((row) => [row.position, textOf(row)]),
  );
  const found: Finding[] = [];
  for (const { position, text } of controls) {
    if (position <= after || position > upTo) continue;
    const copy = retained.get(position);
    retained.delete(position);
    if (copy !== text)
      found.push({
        position,
        table: 'log_kept',
        problem:
          copy === undefined
            ? `the row of position ${position} is missing`
            : `the row of position ${position} differs from the event of the log`,
      });
  }
  for (const position of retained.keys())
    found.push({
      position,
      table: 'log_kept',
      problem: `the row of position ${position} is not a control event of the log`,
    });
  return found;
}

/** The lower bound of a partition; `MINVALUE` and shapes that no partition of ours has are position 1. */
const lowerBound = ({ bounds }: AttachedPartition): number =>
  Math.max(1, Number(/FROM \('?(-?\d+)/.exec(bounds)?.[1] ?? 1));

/**
 * Checks that partitions are consecutive, and that each attached table has a row. If not, their manifests
 * can't be compared.
 */
export function checkPartitions({
  partitions,
  attached,
}: Pick<DatabaseSnapshot, 'partitions' | 'attached'>): Finding[] {
  const recorded = new Set(partitions.map(({ name }) => name));
  const found = attached
    .filter(({ name }) => !recorded.has(name))
    .map((each): Finding => {
      const problem = `the row of the attached partition ${each.name} is missing`;
      return { position: lowerBound(each), table: 'log_partition', problem };
    });
  let end = 0;
  let isArchived = true;
  for (const [index, each] of partitions.entries()) {
    const find = (problem: string): void =>
      void found.push({
        position: each.first,
        table: 'log_partition',
        problem: `the row of partition ${each.number} ${problem}`,
      });
    if (each.number !== index) find(`has the index ${index}`);
    if (each.first !== end + 1) find(`begins at position ${each.first}, and the previous one ends at ${end}`);
    if (!each.isBound) find('differs from the bounds of its table');
    if (each.isArchived && !isArchived) find('is archived, and an earlier one is not');
    if (each.isArchived !== (each.manifest !== null) || each.isArchived !== (each.openLeaves !== null))
      find('is incompletely archived');
    end = each.last;
    isArchived = each.isArchived;
  }
  return found;
}

/** Compares the manifest of an archived partition with its events. */
export function compareManifest(
  partition: PartitionRow,
  facts: ManifestFacts | undefined,
  logId: string,
): Finding[] {
  const find = (problem: string): Finding[] => [
    {
      position: partition.first,
      table: 'log_partition',
      problem: `the manifest of partition ${partition.number} ${problem}`,
    },
  ];
  const parsed = Manifest.safeParse(partition.manifest);
  if (!parsed.success) return find('is invalid');
  // The size and digest are compared with the file, if that is available; its time can't be verified.
  const { bytes: _bytes, sha256: _sha256, made_at: _madeAt, ...manifest } = parsed.data;
  const { openLeaves, ...counted } = facts ?? { openLeaves: partition.openLeaves };
  const { number, first, last } = partition;
  const truth: Record<string, unknown> = {
    log_id: logId,
    shard: SHARD,
    partition: number,
    first_position: first,
    last_position: last,
    file: fileName(`log_${String(number).padStart(6, '0')}`),
    event_count: last - first + 1,
    ...counted,
  };
  const wrong = Object.entries(truth).find(
    ([name, value]) => JSON.stringify(value) !== JSON.stringify(manifest[name as keyof typeof manifest]),
  );
  if (wrong) return find(`has a ${wrong[0]} that differs from the log`);
  if (partition.openLeaves?.equals(openLeaves ?? Buffer.alloc(0)) === false)
    return find('has leaf hashes of its last batch that differ from the log');
  return [];
}
