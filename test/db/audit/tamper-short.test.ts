import { expect, test } from 'vitest';
import { randomFrom } from '../../chaos/random.ts';
import { createEmptyDatabase } from '../../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../../support/directory.ts';
import { changeByte } from '../../tamper/byte-changes.ts';
import { cutTail, cutWithinWindow } from '../../tamper/cuts.ts';
import { deleteRows } from '../../tamper/deletions.ts';
import { moveEvents } from '../../tamper/moves.ts';
import { rewriteAll } from '../../tamper/rewrites.ts';
import { runTrials, tally } from '../../tamper/run.ts';
import { openWorld } from '../../tamper/world.ts';

/** The short form of `npm run tamper`. */

const EVENTS = 1_100;

test('tamper: any change by a superuser is located by a key and an older checkpoint', async () => {
  await using database = await createEmptyDatabase();
  const place = await makeTestDirectory();
  try {
    const random = randomFrom(1);
    await using world = await openWorld(
      { store: database, superuser: () => database.superuser() },
      EVENTS,
      random,
      place,
    );
    const outcomes = await runTrials(world, random, [
      { attacker: changeByte, count: 10 },
      { attacker: cutTail, count: 5 },
      { attacker: rewriteAll, count: 3 },
      { attacker: moveEvents, count: 3 },
      { attacker: deleteRows, count: 4 },
      { attacker: cutWithinWindow, count: 1 },
    ]);
    const { kinds, missed } = tally(outcomes);
    expect(missed).toEqual([]);
    expect(kinds.reduce((sum, { attempted }) => sum + attempted, 0)).toBe(26);
    // Events that no checkpoint covers yet can be truncated without a trace: at most ten seconds, or a
    // thousand events.
    expect(kinds.find(({ kind }) => kind === 'truncation of uncovered events')).toMatchObject({
      attempted: 1,
      found: 0,
    });
  } finally {
    await removeTestDirectory(place);
  }
});
