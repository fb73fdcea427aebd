import type { ClientBase } from 'pg';
import { SHARD } from '#db/log/append.ts';
import { firstPosition, readStream } from '#db/log/read.ts';
import { LOG_STREAM } from '#db/events/streams.ts';
import { parseNote } from '#db/tlog/note.ts';
import { readLogState } from '#db/tlog/log-state.ts';
import type { CheckpointPage, CheckpointRow, Proof, WitnessRow } from '#server/contract/audit.ts';

type Row = { epoch: number; size: string; note: string; published_at: Date; witnesses: string[] };

const COLUMNS = `c.epoch, c.size, c.note, c.published_at,
  array(select witness from daybook.cosignature w
    where w.shard = c.shard and w.epoch = c.epoch and w.size = c.size order by witness) as witnesses`;
const READ_PAGE = `select ${COLUMNS} from daybook.checkpoint c
  where c.shard = $1 and (c.epoch, c.size) < ($2, $3) order by c.epoch desc, c.size desc limit $4`;
/** Sorts before every checkpoint. */
const NEWEST: Place = { epoch: 2 ** 31 - 1, size: Number.MAX_SAFE_INTEGER };

type Place = { epoch: number; size: number };

async function readRows(client: ClientBase, before: Place, limit: number): Promise<CheckpointRow[]> {
  const { rows } = await client.query<Row>(READ_PAGE, [SHARD, before.epoch, before.size, limit]);
  return rows.map(describe);
}

function describe({ epoch, size, note, published_at, witnesses }: Row): CheckpointRow {
  const { text, signatures } = parseNote(note);
  return {
    epoch,
    size: Number(size),
    root: text.split('\n')[2] ?? '',
    signed_by: signatures.map(({ name, keyId }) => ({ name, key_id: keyId })),
    published_at: published_at.toISOString(),
    witnesses,
    note,
  };
}

/** One page of checkpoints, newest first. @param cursor `next` of the page before. */
export async function listCheckpoints(
  client: ClientBase,
  limit: number,
  cursor: string | undefined,
): Promise<CheckpointPage> {
  const [epoch = 0, size = 0] = cursor?.split('-').map(Number) ?? [];
  const data = await readRows(client, cursor === undefined ? NEWEST : { epoch, size }, limit);
  const last = data.at(-1);
  return {
    object: 'list',
    data,
    next: last === undefined || data.length < limit ? null : `${last.epoch}-${last.size}`,
  };
}

/**
 * The signed part of the log, its keys and witnesses. @param configured names of the configured witnesses.
 */
export async function readProof(
  client: ClientBase,
  configured: readonly string[],
): Promise<Omit<Proof, 'object'>> {
  const { logId, origin, signing, head } = await readLogState(client);
  const [newest = null] = await readRows(client, NEWEST, 1);
  const covered = newest?.epoch === signing.epoch ? newest.size : 0;
  const { rows } = await client.query<{ now: Date; since: Date | null }>(
    `select clock_timestamp() as now,
      (select at from daybook.log_batch where shard = $1 and last_position > $2
        order by last_position limit 1) as since`,
    [SHARD, covered],
  );
  const { now, since } = rows[0] as (typeof rows)[number];
  const times = new Map(
    (await readStream(client, LOG_STREAM)).map(({ position, at }) => [position, at.toISOString()]),
  );
  return {
    now: now.toISOString(),
    log: { id: logId, origin, epoch: signing.epoch, head, first: await firstPosition(client) },
    latest: newest,
    uncovered: { events: Math.max(0, head - covered), since: since?.toISOString() ?? null },
    keys: signing.keys
      .map(({ verifierKey, position }) => {
        const keyId = verifierKey.split('+')[1] ?? '';
        return {
          verifier_key: verifierKey,
          key_id: keyId,
          position,
          at: times.get(position) ?? null,
          is_signing: newest?.signed_by.some(({ key_id }) => key_id === keyId) ?? false,
        };
      })
      .toReversed(),
    lost: signing.lost.map((each) => ({ ...each, at: times.get(each.position) ?? null })).toReversed(),
    witnesses: await readWitnesses(client, configured, newest),
  };
}

const READ_WITNESSES = `select distinct on (witness) witness, epoch, size, received_at
  from daybook.cosignature
  where shard = $1 order by witness, epoch desc, size desc`;

async function readWitnesses(
  client: ClientBase,
  configured: readonly string[],
  newest: CheckpointRow | null,
): Promise<WitnessRow[]> {
  const { rows } = await client.query<{ witness: string; epoch: number; size: string; received_at: Date }>(
    READ_WITNESSES,
    [SHARD],
  );
  const seen = new Map(rows.map((row) => [row.witness, row]));
  return [...new Set([...configured, ...seen.keys()])].toSorted().map((name) => {
    const row = seen.get(name);
    // Cosignatures of an abandoned history say nothing about this one.
    const isOfThis = row !== undefined && row.epoch === newest?.epoch;
    return {
      name,
      configured: configured.includes(name),
      size: isOfThis ? Number(row.size) : null,
      seen_at: row?.received_at.toISOString() ?? null,
      behind: isOfThis ? Math.max(0, (newest?.size ?? 0) - Number(row.size)) : null,
    };
  });
}
