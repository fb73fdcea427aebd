import type { Client } from 'pg';
import type { Random } from '../chaos/random.ts';
import { makeFit, wholeBatches } from './batches.ts';
import { type Attack, between, oneOf } from './trial.ts';
import type { World } from './world.ts';

/** How far events and batches move, for those behind a place. */
type Shift = { from: number; by: number };

/** Events change places, come in between, or go; half of the time everything is made to fit afterwards. */
export async function moveEvents(world: World, random: Random): Promise<Attack> {
  const isFitted = random.below(2) === 0;
  const move = oneOf(random, [swap, insert, remove, removeBatch]);
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

const swap: Move = async (world, random) => {
  const batches = await movable(world);
  const [lower, upper] = [oneOf(random, batches).from, oneOf(random, batches).to].toSorted(
    (one, other) => one - other,
  ) as [number, number];
  if (lower === upper) return swap(world, random, true);
  await shiftRows(world.superuser, [
    { position: lower, to: upper },
    { position: upper, to: lower },
  ]);
  return { what: `${lower} and ${upper} have changed places`, expected: lower, from: lower };
};

const insert: Move = async (world, random, isFitted) => {
  const { superuser } = world;
  const batches = await movable(world);
  const batch = oneOf(random, batches);
  const position = between(random, batch.from, batch.to);
  const copied = oneOf(
    random,
    batches.filter(({ from }) => from !== batch.from),
  ).from;
  await superuser.query(
    'create temp table copied on commit drop as select * from daybook.log where position = $1',
    [copied],
  );
  await shiftFrom(superuser, { from: position, by: 1 });
  await superuser.query('update copied set position = $1', [position]);
  await superuser.query('insert into daybook.log select * from copied');
  if (isFitted) await shiftBatches(superuser, { from: batch.to, by: 1 }, 1);
  return { what: `a copy of ${copied} stands at ${position}`, expected: position, from: batch.from };
};

const remove: Move = async (world, random, isFitted) => {
  const { superuser } = world;
  const batch = oneOf(
    random,
    (await movable(world)).filter(({ from, to }) => from < to),
  );
  const position = between(random, batch.from, batch.to);
  await superuser.query('delete from daybook.log where position = $1', [position]);
  await shiftFrom(superuser, { from: position + 1, by: -1 });
  if (isFitted) await shiftBatches(superuser, { from: batch.to, by: -1 }, -1);
  return { what: `${position} is gone, and the others have moved up`, expected: position, from: batch.from };
};

const removeBatch: Move = async (world, random, isFitted) => {
  const { superuser } = world;
  const { from, to } = oneOf(random, await movable(world));
  await superuser.query('delete from daybook.log where position between $1 and $2', [from, to]);
  await superuser.query('delete from daybook.log_batch where last_position = $1', [to]);
  if (isFitted) {
    await shiftFrom(superuser, { from: to + 1, by: from - to - 1 });
    await shiftBatches(superuser, { from: to + 1, by: from - to - 1 }, 0);
  }
  return {
    what: `the batch from ${from} to ${to} is gone${isFitted ? ', and the others have moved up' : ''}`,
    expected: from,
    from: from - 1,
  };
};

async function movable(world: World): Promise<{ from: number; to: number }[]> {
  // The first has one before it that is whole, which a chain goes on from.
  return (await wholeBatches(world)).slice(1).filter(({ to }) => to <= world.covered);
}

async function shiftRows(client: Client, moves: readonly { position: number; to: number }[]): Promise<void> {
  const values = [moves.map(({ position }) => position), moves.map(({ to }) => to)];
  await client.query(
    'create temp table moved on commit drop as select * from daybook.log where position = any($1)',
    [values[0]],
  );
  await client.query('delete from daybook.log where position = any($1)', [values[0]]);
  await client.query(
    `update moved m set position = n.target
      from unnest($1::bigint[], $2::bigint[]) n(position, target) where m.position = n.position`,
    values,
  );
  await client.query('insert into daybook.log select * from moved');
}

async function shiftFrom(client: Client, { from, by }: Shift): Promise<void> {
  await client.query(
    'create temp table shifted on commit drop as select * from daybook.log where position >= $1',
    [from],
  );
  await client.query('delete from daybook.log where position >= $1', [from]);
  await client.query('update shifted set position = position + $1', [by]);
  await client.query('insert into daybook.log select * from shifted');
}

/** @param count how many events the first of them has more than before. */
async function shiftBatches(client: Client, { from, by }: Shift, count: number): Promise<void> {
  await client.query(
    'create temp table batches on commit drop as select * from daybook.log_batch where last_position >= $1',
    [from],
  );
  await client.query('delete from daybook.log_batch where last_position >= $1', [from]);
  await client.query('update batches set event_count = event_count + $2 where last_position = $1', [
    from,
    count,
  ]);
  await client.query('update batches set last_position = last_position + $1', [by]);
  await client.query('insert into daybook.log_batch select * from batches');
}
