import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { ClientBase } from 'pg';
import { z } from 'zod';
import { SHARD } from '#db/log/append.ts';
import type { LostEvents } from '#db/log/acknowledged.ts';

/**
 * Events that servers found missing in the log after they had been acknowledged, beside the published log.
 * The files outlast the servers that found them; an epoch that gives the events up removes them.
 */
const FOLDER = 'lost-events';

const Evidence = z.object({
  /** Of the epoch that lost them: a later one has given them up. */
  origin: z.string(),
  instance: z.int(),
  batch_no: z.int(),
  first_position: z.int(),
  last_position: z.int(),
});

/** A range of positions, both included. */
export type Positions = { first: number; last: number };

/** Records what a server found. Idempotent. */
export async function recordLostEvents(directory: string, origin: string, lost: LostEvents): Promise<void> {
  const evidence: z.infer<typeof Evidence> = {
    origin,
    instance: lost.instance,
    batch_no: lost.batchNo,
    first_position: lost.first,
    last_position: lost.last,
  };
  await mkdir(path.join(directory, FOLDER), { recursive: true });
  await writeFile(path.join(directory, FOLDER, `${lost.instance}.json`), `${JSON.stringify(evidence)}\n`);
}

/** The recorded events that the log still lacks; null without any. */
export async function findLostEvents(
  client: ClientBase,
  directory: string,
  origin: string,
): Promise<Positions | null> {
  const folder = path.join(directory, FOLDER);
  const names = await readdir(folder).catch(() => []);
  const lost: Positions[] = [];
  for (const name of names) {
    const evidence = Evidence.parse(JSON.parse(await readFile(path.join(folder, name), 'utf8')));
    if (evidence.origin !== origin) continue;
    const { rowCount } = await client.query(
      `select from daybook.log_batch
        where shard = $1 and instance = $2 and batch_no = $3 and last_position = $4`,
      [SHARD, evidence.instance, evidence.batch_no, evidence.last_position],
    );
    if (rowCount !== 0) continue;
    lost.push({ first: evidence.first_position, last: evidence.last_position });
  }
  if (lost.length === 0) return null;
  return {
    first: Math.min(...lost.map(({ first }) => first)),
    last: Math.max(...lost.map(({ last }) => last)),
  };
}

/** Removes the records once the events were given up. */
export async function forgetLostEvents(directory: string): Promise<void> {
  await rm(path.join(directory, FOLDER), { recursive: true, force: true });
}
