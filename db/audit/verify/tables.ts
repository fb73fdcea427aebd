import type { ClientBase } from 'pg';
import { textOf } from '#db/audit/source/lines.ts';
import { CHECKPOINT_JSON, readRowTexts } from '#db/audit/verify/pages.ts';
import type { CheckpointRow } from '#db/audit/verify/claims.ts';
import type { PartFacts } from '#db/audit/verify/parts.ts';
import type { Finding } from '#db/audit/verify/report.ts';
import type { ControlRow } from '#db/audit/verify/verifier.ts';
import type { Node } from '#db/audit/verify/tree.ts';
import { fileName, Manifest } from '#db/archive/manifest.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { SHARD } from '#db/log/append.ts';
import { NODE_CHILDREN } from '#db/tlog/hashes.ts';

/** Reads the tables beside the log, and compares them with what the log itself comes to. */

/** A row of `daybook.log_partition`; positions of events, not of the borders between them. */
export type PartitionRow = {
  number: number;
  first: number;
  last: number;
  /** Whether Postgres, which holds the table to its bounds, says the same of them. */
  isBound: boolean;
  isArchived: boolean;
  manifest: unknown;
  openLeaves: Buffer | null;
};

/** The log as it stands at one moment. */
export type Snapshot = {
  logId: string;
  head: number;
  /** From here on the database has all events. */
  first: number;
  streams: ReadonlyMap<string, number>;
  partitions: readonly PartitionRow[];
  /** The size of its newest checkpoint: up to there its tree is kept. */
  built: number;
  /** Checkpoints of a log longer than this. */
  beyond: readonly CheckpointRow[];
};

const IS_BOUND = `coalesce((select pg_get_expr(relpartbound, oid) = format('FOR VALUES FROM (%L) TO (%L)', first_position, end_position)
    from pg_class where oid = to_regclass('daybook.' || quote_ident(name)) and relispartition), true)`;
const READ_SNAPSHOT = `with head as (
    select greatest(0, (select max(position) from daybook.log where shard = $1), (select max(last_position) from daybook.log_batch where shard = $1)) as head)
  select (select log_id::text from daybook.install limit 1) as log_id, head, daybook.first_position() as first,
    (select json_agg(json_build_array(stream, version)) from daybook.stream_head) as streams,
    (select json_agg(json_build_object('number', number, 'first', greatest(1, first_position), 'last', end_position - 1,
        'isBound', ${IS_BOUND}, 'isArchived', archived_at is not null, 'manifest', manifest, 'openLeaves', encode(open_leaves, 'hex')) order by first_position, number) from daybook.log_partition) as partitions,
    (select coalesce(max(size), 0) from daybook.checkpoint where shard = $1 and size <= head) as built,
    (select json_agg(${CHECKPOINT_JSON} order by size, epoch) from daybook.checkpoint where shard = $1 and size > head) as beyond
  from head`;

/** All in one statement, so that nothing that is appended meanwhile comes between. */
export async function readSnapshot(client: ClientBase): Promise<Snapshot> {
  const { rows } = await client.query<{
    log_id: string | null;
    head: string;
    first: string;
    built: string;
    streams: [string, number][] | null;
    partitions: (Omit<PartitionRow, 'openLeaves'> & { openLeaves: string | null })[] | null;
    beyond: CheckpointRow[] | null;
  }>(READ_SNAPSHOT, [SHARD]);
  const row = rows[0];
  if (row?.log_id == null) throw new StoreError('the database has no log: daybook.install is empty');
  return {
    logId: row.log_id,
    head: Number(row.head),
    first: Number(row.first),
    streams: new Map(row.streams),
    partitions: (row.partitions ?? []).map((each) => ({
      ...each,
      openLeaves: each.openLeaves === null ? null : Buffer.from(each.openLeaves, 'hex'),
    })),
    built: Number(row.built),
    beyond: row.beyond ?? [],
  };
}

/** Rows that are in no shard that there is: the first of each table. */
export async function readStrays(client: ClientBase): Promise<Finding[]> {
  const found: Finding[] = [];
  for (const [table, position] of [
    ['log', 'position'],
    ['log_batch', 'last_position'],
    ['log_kept', 'position'],
    ['log_node', 'number'],
    ['checkpoint', 'size'],
  ]) {
    const { rows } = await client.query<[string, string]>({
      text: `select shard::text, ${position}::text from daybook.${table} where shard < $1 or shard > $1 order by shard, ${position} limit 1`,
      values: [SHARD],
      rowMode: 'array',
    });
    for (const [shard, at] of rows)
      found.push({
        position: Number(at),
        table: table as string,
        problem: `the row at ${at} is of shard ${shard}, and there is no such shard`,
      });
  }
  return found;
}

/**
 * Nodes of a level of the tree in the table that differ from the true ones, which are all there should be in
 * this range.
 */
export async function compareNodes(
  client: ClientBase,
  level: number,
  from: number,
  to: number,
  nodes: readonly Node[],
  builtTo: number,
): Promise<{ level: number; number: number }[]> {
  const { rows } = await client.query<[string, Buffer]>({
    name: 'verify_nodes',
    text: 'select number, hash from daybook.log_node where shard = $1 and level = $2 and number >= $3 and number < $4',
    values: [SHARD, level, from, to],
    rowMode: 'array',
  });
  const stored = new Map(rows.map(([number, hash]) => [Number(number), hash]));
  const wrong: number[] = [];
  for (const { number, hash } of nodes) {
    const there = stored.get(number);
    stored.delete(number);
    if (there === undefined ? (number + 1) * NODE_CHILDREN ** level <= builtTo : !there?.equals(hash))
      wrong.push(number);
  }
  return [...wrong, ...stored.keys()].map((number) => ({ level, number }));
}

/** Compares control events that were kept with those of the log itself, as far as both are at hand. */
export async function compareKept(
  client: ClientBase,
  controls: readonly ControlRow[],
  after: number,
  upTo: number,
): Promise<Finding[]> {
  const kept = new Map(
    (await readRowTexts(client, 'daybook.log_kept', after, upTo)).map((row) => [row.position, textOf(row)]),
  );
  const found: Finding[] = [];
  for (const { position, text } of controls) {
    if (position <= after || position > upTo) continue;
    const copy = kept.get(position);
    kept.delete(position);
    if (copy !== text)
      found.push({
        position,
        table: 'log_kept',
        problem:
          copy === undefined
            ? `the row of position ${position} is missing`
            : `the row of position ${position} is not the event of the log`,
      });
  }
  for (const position of kept.keys())
    found.push({
      position,
      table: 'log_kept',
      problem: `the row of position ${position} is no control event of the log`,
    });
  return found;
}

/**
 * Whether partitions follow one another without a gap; where they don't nothing can be said of their
 * manifests.
 */
export function checkPartitions(partitions: readonly PartitionRow[]): Finding[] {
  const found: Finding[] = [];
  let end = 0;
  let isArchived = true;
  for (const [index, each] of partitions.entries()) {
    const find = (problem: string): void =>
      void found.push({
        position: each.first,
        table: 'log_partition',
        problem: `the row of partition ${each.number} ${problem}`,
      });
    if (each.number !== index) find(`is the ${index + 1}. in order`);
    if (each.first !== end + 1) find(`begins at position ${each.first}, and the one before ends at ${end}`);
    if (!each.isBound) find('has other bounds than its table');
    if (each.isArchived && !isArchived) find('is archived, and one before it is not');
    if (each.isArchived !== (each.manifest !== null) || each.isArchived !== (each.openLeaves !== null))
      find('is archived in part');
    end = each.last;
    isArchived = each.isArchived;
  }
  return found;
}

/** Where the manifest of an archived partition says something else than its events. */
export function compareManifest(
  partition: PartitionRow,
  facts: PartFacts | undefined,
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
  if (!parsed.success) return find('is none');
  // The file's own size and digest are compared with the file, where that is at hand; when it was made nobody
  // can tell.
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
  if (wrong) return find(`has another ${wrong[0]} than the log`);
  if (partition.openLeaves?.equals(openLeaves ?? Buffer.alloc(0)) === false)
    return find('has leaves of its last batch that are not those of the log');
  return [];
}
