import { setTimeout } from 'node:timers/promises';
import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import type { ParsedCheckpoint } from '#db/audit/verify/checkpoints.ts';
import type { CheckpointNote } from '#db/audit/verify/evidence.ts';
import type { Finding } from '#db/audit/verify/report.ts';
import { originOf } from '#db/fold/signing.ts';
import { SHARD } from '#db/log/append.ts';
import { batchOf } from '#db/log/lookup.ts';
import { db, rowOf, rowsOf } from '#db/schema/query.ts';
import { PUBLICATION_MS_MAX, ROW_WAIT_MS } from '#db/audit/bounds.ts';

/**
 * Whether stored checkpoints are missing. Deleting one breaks no hash, so only other evidence shows it: the
 * publish directory has the newest checkpoint and the last one of each hour, which is never thinned out; an
 * auditor has older ones; and the log has the event of the first signing key.
 */

const HOUR_MS = 3_600_000;

/** Notes of the publish directory without those that are stored, whose rows are verified themselves. */
export async function withoutStored(
  client: ClientBase,
  notes: readonly CheckpointNote[],
): Promise<CheckpointNote[]> {
  if (notes.length === 0) return [];
  const query = db
    .selectFrom('daybook.checkpoint')
    .select('note')
    .where('shard', '=', SHARD)
    .where('note', '=', sql<string>`any(${notes.map(({ note }) => note)})`);
  const stored = new Set((await rowsOf(client, query)).map(({ note }) => note));
  return notes.filter(({ note }) => !stored.has(note));
}

/** What shows which checkpoints were stored. */
export type HistoryEvidence = {
  logId: string;
  /** Checkpoints with a trusted signature that do not contradict the log. */
  signed: readonly ParsedCheckpoint[];
  /** The position of the event of the first signing key; null without one. */
  signedFrom: number | null;
  /** Whether a moment may pass until the row of the newest published checkpoint is there. */
  isPatient: boolean;
};

/** The stored checkpoints that are missing, and notes about a history that begins late. */
export async function findMissingCheckpoints(
  client: ClientBase,
  { logId, signed, signedFrom, isPatient }: HistoryEvidence,
): Promise<{ findings: Finding[]; notes: string[] }> {
  const findings: Finding[] = [];
  const notes: string[] = [];
  const find = (position: number, problem: string): void =>
    void findings.push({ position, table: 'checkpoint', problem });
  let hasWaited = !isPatient;
  for (const { checkpoint, table, from } of signed) {
    const { size, origin } = checkpoint;
    const epoch = epochOf(logId, origin);
    let next = await nextStored(client, epoch, size);
    if (next !== size && table === 'published' && !hasWaited) {
      hasWaited = true;
      await setTimeout(ROW_WAIT_MS);
      next = await nextStored(client, epoch, size);
    }
    if (next === size) continue;
    // A checkpoint of an auditor may have been thinned out, and then the last one of its hour is stored.
    if (table !== 'published' && next !== null && !(await isOfLaterHour(client, size + 1, next))) continue;
    find(size, `the row of epoch ${epoch}, size ${size} is missing, which ${from} shows`);
  }
  if (signedFrom !== null) {
    const first = await nextStored(client, null, 0);
    if (first === null)
      find(signedFrom, `no checkpoint is stored, and position ${signedFrom} records the key that signs them`);
    else if (await isOfLaterHour(client, signedFrom, first))
      notes.push(
        `the stored checkpoints begin at size ${first}, more than an hour after the first signing key at ` +
          `position ${signedFrom}: earlier ones are missing, or none was published then`,
      );
  }
  return { findings, notes };
}

/** The smallest stored size from one on, of an epoch or of any; null without one. */
async function nextStored(client: ClientBase, epoch: number | null, size: number): Promise<number | null> {
  const query = db
    .selectFrom('daybook.checkpoint')
    .select(({ fn }) => fn.min('size').as('size'))
    .where('shard', '=', SHARD)
    .where('size', '>=', String(size))
    .$if(epoch !== null, (each) => each.where('epoch', '=', epoch));
  const found = (await rowOf(client, query))?.size ?? null;
  return found === null ? null : Number(found);
}

/**
 * Whether the events up to `size` were appended after the hour in which the event at `position` was, so that
 * a checkpoint of that size can't be the last one of that hour.
 */
async function isOfLaterHour(client: ClientBase, position: number, size: number): Promise<boolean> {
  const earlier = await rowOf(client, batchOf(position).select('at'));
  const later = await rowOf(client, batchOf(size).select('at'));
  if (earlier === undefined || later === undefined) return false;
  const hourEnd = (Math.floor(Number(earlier.at) / HOUR_MS) + 1) * HOUR_MS;
  return Number(later.at) > hourEnd + PUBLICATION_MS_MAX;
}

const epochOf = (logId: string, origin: string): number =>
  Number(origin.slice(originOf(logId, 1).length + 1) || 1);
