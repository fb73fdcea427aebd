import { expect, test } from 'vitest';
import { randomFrom } from '../../chaos/random.ts';
import { createEmptyDatabase } from '../../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../../support/directory.ts';
import { changeByte } from '../../tamper/byte-changes.ts';
import { cutTail, cutWithinWindow } from '../../tamper/cuts.ts';
import { moveEvents } from '../../tamper/moves.ts';
import { rewriteAll } from '../../tamper/rewrites.ts';
import { runTrials, tally } from '../../tamper/run.ts';
import { openWorld } from '../../tamper/world.ts';

/** The short form of `npm run tamper`. */

const EVENTS = 1_100;

test(
  'whatever somebody with all rights changes in a log is found by who holds a key and an older ' +
    'checkpoint, at its first bad position',
  async () => {
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
        { attacker: cutWithinWindow, count: 1 },
      ]);
      const { kinds, missed } = tally(outcomes);
      expect(missed).toEqual([]);
      expect(kinds.reduce((sum, { tried }) => sum + tried, 0)).toBe(22);
      // What no checkpoint covers yet can be cut off without a trace: at most ten seconds of it, or a
      // thousand events.
      expect(kinds.find(({ kind }) => kind === 'cut of what no checkpoint covers')).toMatchObject({
        tried: 1,
        found: 0,
      });
    } finally {
      await removeTestDirectory(place);
    }
  },
);
