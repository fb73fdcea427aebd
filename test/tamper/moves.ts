import type { Client } from 'pg';
import type { Random } from '../chaos/random.ts';
import { linesOf, makeFit, putLines, type Span, wholeBatches } from './batches.ts';
import { type Attack, between, oneOf } from './trial.ts';
import type { World } from './world.ts';

/** How far batches move, for those that end behind a place. */
type Shift = { from: number; by: number };

/** Events change places, come in between, or go; half of the time everything is made to fit afterwards. */
export async function moveEvents(world: World, random: Random): Promise<Attack> {
  const isFitted = random.below(2) === 0;
  const move = oneOf(random, [swap, swapWithin, insert, remove, removeBatch]);
  const { what, expected, from } = await move(world, random, isFitted);
  if (isFitted) {
    await world.superuser.query('delete from daybook.checkpoint where size >= $1', [expected]);
    await makeFit(world, from);
  }
  return {
    kind: 'moved events',
    what: `${what}${isFitted ? ', and all that hangs on it' : ''}`,
    expected,
    table: 'log',
  };
}

/** @returns from where on everything has to be made to fit, too. */
type Move = (
  world: World,
  random: Random,
  isFitted: boolean,
) => Promise<{ what: string; expected: number; from: number }>;

/** The first event of a batch and the last one of another, or of the same one. */
const swap: Move = async (world, random) => {
  const batches = await movable(world);
  const [one, other] = [oneOf(random, batches), oneOf(random, batches)].toSorted(
    (left, right) => left.from - right.from,
  ) as [Span, Span];
  if (one.from === other.to) return swap(world, random, true);
  const lower = await linesOf(world, one);
  const last = (await linesOf(world, other)).at(-1) as string;
  await putLines(world, one, lower.with(0, last));
  const upper = await linesOf(world, other);
  await putLines(world, other, upper.with(upper.length - 1, lower[0] as string));
  return { what: `${one.from} and ${other.to} have changed places`, expected: one.from, from: one.from };
};

const swapWithin: Move = async (world, random) => {
  const batch = oneOf(random, await largerThanOne(world));
  const position = between(random, batch.from, batch.to - 1);
  const lines = await linesOf(world, batch);
  const [line, next] = lines.slice(position - batch.from, position - batch.from + 2) as [string, string];
  await putLines(world, batch, lines.with(position - batch.from, next).with(position - batch.from + 1, line));
  return { what: `${position} and the next one have changed places`, expected: position, from: batch.from };
};

const insert: Move = async (world, random, isFitted) => {
  const batches = await movable(world);
  const batch = oneOf(random, batches);
  const position = between(random, batch.from, batch.to);
  const copied = oneOf(
    random,
    batches.filter(({ from }) => from !== batch.from),
  );
  const lines = await linesOf(world, batch);
  const [line] = await linesOf(world, copied);
  await putLines(world, batch, lines.toSpliced(position - batch.from, 0, line as string));
  if (isFitted) await shiftBatches(world.superuser, { from: batch.to, by: 1 }, 1);
  return { what: `a copy of ${copied.from} stands at ${position}`, expected: position, from: batch.from };
};

const remove: Move = async (world, random, isFitted) => {
  const batch = oneOf(random, await largerThanOne(world));
  const position = between(random, batch.from, batch.to);
  const lines = await linesOf(world, batch);
  await putLines(world, batch, lines.toSpliced(position - batch.from, 1));
  if (isFitted) await shiftBatches(world.superuser, { from: batch.to, by: -1 }, -1);
  return { what: `${position} is gone, and the others have moved up`, expected: position, from: batch.from };
};

const removeBatch: Move = async (world, random, isFitted) => {
  const { superuser } = world;
  const { from, to } = oneOf(random, await movable(world));
  await superuser.query('delete from daybook.log where last_position = $1', [to]);
  await superuser.query('delete from daybook.log_batch where last_position = $1', [to]);
  if (isFitted) await shiftBatches(superuser, { from: to + 1, by: from - to - 1 }, 0);
  return {
    what: `the batch from ${from} to ${to} is gone${isFitted ? ', and the others have moved up' : ''}`,
    expected: from,
    from,
  };
};

async function movable(world: World): Promise<Span[]> {
  return (await wholeBatches(world)).filter(({ to }) => to <= world.covered);
}

const largerThanOne = async (world: World): Promise<Span[]> =>
  (await movable(world)).filter(({ from, to }) => from < to);

/**
 * Moves batches in both of their tables, as far as partitions go.
 * @param count how many events the first of them has more than before.
 */
async function shiftBatches(client: Client, { from, by }: Shift, count: number): Promise<void> {
  for (const table of ['log', 'log_batch']) {
    await client.query(
      `create temp table shifted on commit drop as select * from daybook.${table} where last_position >= $1`,
      [from],
    );
    await client.query(`delete from daybook.${table} where last_position >= $1`, [from]);
    await client.query('update shifted set event_count = event_count + $2 where last_position = $1', [
      from,
      count,
    ]);
    await client.query('update shifted set last_position = last_position + $1', [by]);
    await client.query(`insert into daybook.${table} select * from shifted`);
    await client.query('drop table shifted');
  }
}
