import type { Random } from '../chaos/random.ts';
import { makeFit, wholeBatches } from './batches.ts';
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
  await superuser.query('delete from daybook.log where position > $1', [last]);
  await superuser.query('delete from daybook.log_batch where last_position > $1', [
    isWithin && isFitted ? batch.to : last,
  ]);
  if (isFitted) {
    if (isWithin)
      await superuser.query(
        'update daybook.log_batch set last_position = $1, event_count = $2 where last_position = $3',
        [last, last - batch.from + 1, batch.to],
      );
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
  await world.superuser.query('delete from daybook.log where position >= $1', [from]);
  await world.superuser.query('delete from daybook.log_batch where last_position >= $1', [from]);
  await makeFit(world, from);
  return {
    kind: 'truncation of uncovered events',
    what: `all from ${from} on`,
    expected: null,
    table: 'log',
  };
}
