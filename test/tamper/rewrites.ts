import { generateKeyPairSync } from 'node:crypto';
import { parseCheckpoint, signCheckpoint } from '#db/tlog/checkpoint.ts';
import { parseNote, signerOf } from '#db/tlog/note.ts';
import { readRoot } from '#db/tlog/log-state.ts';
import type { Random } from '../chaos/random.ts';
import { changeEvents } from '../support/audit/change-lines.ts';
import { makeFit, type Span, wholeBatches } from './batches.ts';
import { type Attack, between, oneOf } from './trial.ts';
import type { World } from './world.ts';

type Rewrite = { what: string; expected: number };

/** An event is changed, and everything after it made to fit: a chain alone says nothing of this. */
export async function rewriteAll(world: World, random: Random): Promise<Attack> {
  const batch = oneOf(
    random,
    (await wholeBatches(world)).filter(({ to }) => to <= world.covered),
  );
  const { what, expected } = await oneOf(random, [changeRequest, changeTime])(world, random, batch);
  const { rows } = await world.superuser.query<{ size: number; note: string }>(
    'delete from daybook.checkpoint where size >= $1 returning size::float8 as size, note',
    [expected],
  );
  await makeFit(world, batch.from);
  const forges = random.below(2) === 0;
  if (forges) for (const { size, note } of rows) await putForged(world, size, note);
  return {
    kind: 'rewrite',
    what: `${what}${forges ? ', checkpoints signed again by another key' : ''}`,
    expected,
    table: 'log',
  };
}

/** What a request cost, or whose it was. */
async function changeRequest(world: World, random: Random, batch: Span): Promise<Rewrite> {
  const { rows } = await world.superuser.query<{ position: number }>(
    'select position::float8 as position from daybook.events($1, $2) where type >= 100',
    [batch.from - 1, batch.to],
  );
  if (rows.length === 0) return changeTime(world, random, batch);
  const { position } = oneOf(random, rows);
  const change: Record<string, string> = oneOf(random, [
    { account: `'Intruder'` },
    { input_tokens: 'coalesce(input_tokens, 0) # 1', hold_tokens: 'coalesce(hold_tokens, 0) # 1' },
  ]);
  await world.superuser.query(
    `${changeEvents(`position = ${position}`, change)} where last_position = ${batch.to}`,
  );
  return { what: `the event at ${position}: ${JSON.stringify(change)}`, expected: position };
}

/** When a batch was appended, with all its events. */
async function changeTime({ superuser }: World, random: Random, { from, to }: Span): Promise<Rewrite> {
  const us = between(random, 1, 9);
  for (const table of ['log', 'log_batch'])
    await superuser.query(
      `update daybook.${table} set at = at + $2 * interval '1 microsecond' where last_position = $1`,
      [to, us],
    );
  return { what: `positions ${from} to ${to} ${us} microseconds later`, expected: from };
}

/** A checkpoint of the changed log, with its own origin and a foreign key. */
async function putForged({ superuser }: World, size: number, note: string): Promise<void> {
  const { origin } = parseCheckpoint(parseNote(note).text);
  const signer = signerOf(
    origin,
    'ed25519',
    generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }),
  );
  const root = await readRoot(superuser, size).catch(() => Buffer.alloc(32));
  await superuser.query('insert into daybook.checkpoint (epoch, size, note) values (1, $1, $2)', [
    size,
    signCheckpoint({ origin, size, root }, [signer]),
  ]);
}
