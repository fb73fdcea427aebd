import type { Random } from '../chaos/random.ts';
import { linesOf, makeFit, putLines, wholeBatches } from './batches.ts';
import { type Attack, between, oneOf } from './trial.ts';
import type { World } from './world.ts';

/** The newest events go, from any position on. */
export async function cutTail(world: World, random: Random): Promise<Attack> {
  const { superuser, covered } = world;
  const batches = (await wholeBatches(world)).filter(({ from }) => from <= covered);
  const batch = oneOf(random, batches);
  const last = between(random, batch.from - 1, Math.min(batch.to, covered) - 1);
  const isWithin = last >= batch.from;
  const isFitted = random.below(2) === 0;
  const count = last - batch.from + 1;
  if (isWithin) {
    await putLines(world, batch, (await linesOf(world, batch)).slice(0, count));
    for (const table of isFitted ? ['log', 'log_batch'] : ['log'])
      await superuser.query(
        `update daybook.${table} set last_position = $1, event_count = $2 where last_position = $3`,
        [last, count, batch.to],
      );
  }
  for (const table of ['log', 'log_batch'])
    await superuser.query(`delete from daybook.${table} where last_position > $1`, [last]);
  if (isFitted) {
    await superuser.query('delete from daybook.checkpoint where size > $1', [last]);
    // Only a batch that was truncated itself has to be recomputed.
    await makeFit(world, isWithin ? batch.from : last + 1);
  }
  return {
    kind: 'cut tail',
    what:
      'all above ' +
      `${last}${isWithin ? ', within a batch' : ''}${isFitted ? ', with all that hangs on it' : ''}`,
    // The rest of a batch without its row is the first invalid position.
    expected: isWithin && !isFitted ? batch.from : last + 1,
    table: isWithin && !isFitted ? 'log_batch' : 'log',
  };
}

/** Truncates events that no checkpoint covers yet, which is undetectable. */
export async function cutWithinWindow(world: World, random: Random): Promise<Attack> {
  const batches = (await wholeBatches(world)).filter(({ from }) => from > world.covered);
  const { from } = oneOf(random, batches);
  await world.superuser.query('delete from daybook.log where last_position >= $1', [from]);
  await world.superuser.query('delete from daybook.log_batch where last_position >= $1', [from]);
  await makeFit(world, from);
  return {
    kind: 'truncation of uncovered events',
    what: `all from ${from} on`,
    expected: null,
    table: 'log',
  };
}
