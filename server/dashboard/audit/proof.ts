import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import { SHARD } from '#db/log/append.ts';
import { firstPosition, readStream } from '#db/log/read.ts';
import { LOG_STREAM } from '#db/events/streams.ts';
import { db, onlyRowOf, rowsOf } from '#db/schema/query.ts';
import { parseNote } from '#db/tlog/note.ts';
import { readLogState } from '#db/tlog/log-state.ts';
import type { CheckpointPage, CheckpointRow, Proof, WitnessRow } from '#server/contract/audit.ts';

type CheckpointId = { epoch: number; size: number };

const WITNESSES = sql<string[]>`array(select witness from daybook.cosignature w
  where w.shard = c.shard and w.epoch = c.epoch and w.size = c.size order by witness)`;

/** Checkpoints, newest first. @param before null: from the newest one. */
async function readCheckpoints(
  client: ClientBase,
  before: CheckpointId | null,
  limit: number,
): Promise<CheckpointRow[]> {
  let query = db
    .selectFrom('daybook.checkpoint as c')
    .select(['c.epoch', 'c.size', 'c.note', 'c.published_at', WITNESSES.as('witnesses')])
    .where('c.shard', '=', SHARD)
    .orderBy('c.epoch', 'desc')
    .orderBy('c.size', 'desc')
    .limit(limit);
  if (before !== null)
    query = query.where(({ eb, refTuple, tuple }) =>
      eb(refTuple('c.epoch', 'c.size'), '<', tuple(before.epoch, String(before.size))),
    );
  return (await rowsOf(client, query)).map(({ epoch, size, note, published_at, witnesses }) => {
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
  });
}

/** One page of checkpoints, newest first. @param cursor `next` of the page before. */
export async function listCheckpoints(
  client: ClientBase,
  limit: number,
  cursor: string | undefined,
): Promise<CheckpointPage> {
  const [epoch = 0, size = 0] = cursor?.split('-').map(Number) ?? [];
  const data = await readCheckpoints(client, cursor === undefined ? null : { epoch, size }, limit);
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
  const [newest = null] = await readCheckpoints(client, null, 1);
  const covered = newest?.epoch === signing.epoch ? newest.size : 0;
  const { now, since } = await readUncovered(client, covered);
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

/** The time, and that of the first batch after a position: null at the end of the log. */
async function readUncovered(
  client: ClientBase,
  position: number,
): Promise<{ now: Date; since: Date | null }> {
  const query = db.selectNoFrom(({ fn, selectFrom }) => [
    fn<Date>('clock_timestamp').as('now'),
    selectFrom('daybook.log_batch')
      .select('at')
      .where('shard', '=', SHARD)
      .where('last_position', '>', String(position))
      .orderBy('last_position')
      .limit(1)
      .as('since'),
  ]);
  return onlyRowOf(client, query);
}

async function readWitnesses(
  client: ClientBase,
  configured: readonly string[],
  newest: CheckpointRow | null,
): Promise<WitnessRow[]> {
  const query = db
    .selectFrom('daybook.cosignature')
    .distinctOn('witness')
    .select(['witness', 'epoch', 'size', 'received_at'])
    .where('shard', '=', SHARD)
    .orderBy('witness')
    .orderBy('epoch', 'desc')
    .orderBy('size', 'desc');
  const seen = new Map((await rowsOf(client, query)).map((row) => [row.witness, row]));
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
