import { sql } from 'kysely';
import { jsonArrayFrom } from 'kysely/helpers/postgres';
import type { ClientBase } from 'pg';
import { CHECKPOINT_JSON } from '#db/audit/verify/pages.ts';
import type { CheckpointRow } from '#db/audit/verify/checkpoints.ts';
import type { ManifestFacts } from '#db/audit/verify/manifest-facts.ts';
import type { Finding } from '#db/audit/verify/report.ts';
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
  /** Positions behind the head of rows of `daybook.control_event`, at most COPIES_BEYOND_MAX. */
  controlBeyond: readonly number[];
  /** The same of `daybook.correction`. */
  correctionBeyond: readonly number[];
};

/** One is enough to prove that the table was changed. */
const COPIES_BEYOND_MAX = 100;

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
          .select(({ fn: inner }) => inner.max('last_position').as('head'))
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
      sql<number[]>`array(${selectFrom('daybook.control_event')
        .select(sql<number>`position::float8`.as('position'))
        .where('shard', '=', SHARD)
        .whereRef('position', '>', 'head.head')
        .orderBy('position')
        .limit(COPIES_BEYOND_MAX)})`.as('control_beyond'),
      sql<number[]>`array(${selectFrom('daybook.correction')
        .select(sql<number>`position::float8`.as('position'))
        .whereRef('position', '>', 'head.head')
        .orderBy('position')
        .limit(COPIES_BEYOND_MAX)})`.as('correction_beyond'),
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
    partitions: row.partitions,
    attached: row.attached,
    built: Number(row.built ?? 0),
    beyond: row.beyond ?? [],
    controlBeyond: row.control_beyond,
    correctionBeyond: row.correction_beyond,
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
    ['log', 'last_position'],
    ['log_batch', 'last_position'],
    ['control_event', 'position'],
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
    if (each.isArchived !== (each.manifest !== null)) find('is incompletely archived');
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
  const { number, first, last } = partition;
  const truth: Record<string, unknown> = {
    log_id: logId,
    shard: SHARD,
    partition: number,
    first_position: first,
    last_position: last,
    file: fileName(`log_${String(number).padStart(6, '0')}`),
    event_count: last - first + 1,
    ...facts,
  };
  const wrong = Object.entries(truth).find(
    ([name, value]) => JSON.stringify(value) !== JSON.stringify(manifest[name as keyof typeof manifest]),
  );
  return wrong ? find(`has a ${wrong[0]} that differs from the log`) : [];
}
