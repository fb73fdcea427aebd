import { parseArgs } from 'node:util';
import { showTable } from '#db/command-line/table.ts';
import { randomFrom } from '../chaos/random.ts';
import { changeByte } from './byte-changes.ts';
import { cutTail, cutWithinWindow } from './cuts.ts';
import { deleteRows } from './deletions.ts';
import { startGround } from './ground.ts';
import { moveEvents } from './moves.ts';
import { rewriteAll } from './rewrites.ts';
import { runTrials, tally } from './run.ts';
import { openWorld } from './world.ts';

/**
 * `npm run tamper -- [--seed 1] [--seeds 1] [--events 2000] [--bytes 100] [--cuts 50] [--rewrites 20]
 * [--moves 20] [--deletions 40]`: changes a log as superuser, and checks that verification detects and
 * locates it. Prints a table, and a verdict as JSON; exits 1 on any miss.
 */
const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    seeds: { type: 'string', default: '1' },
    events: { type: 'string', default: '2000' },
    bytes: { type: 'string', default: '100' },
    cuts: { type: 'string', default: '50' },
    rewrites: { type: 'string', default: '20' },
    moves: { type: 'string', default: '20' },
    deletions: { type: 'string', default: '40' },
  },
});
const MISSED_SHOWN = 20;
const HEADINGS = ['ATTACK', 'ATTEMPTS', 'DETECTED', 'LOCATED', 'TABLE', 'BY OLDER CHECKPOINT', 'IN RANGE'];
const CUTS_IN_WINDOW = 5;

const startedMs = performance.now();
const [seed, events] = [Number(values.seed), Number(values.events)];
await using ground = await startGround();
await using world = await openWorld(ground, events, randomFrom(seed), ground.place);
const trials = [
  { attacker: changeByte, count: Number(values.bytes) },
  { attacker: cutTail, count: Number(values.cuts) },
  { attacker: rewriteAll, count: Number(values.rewrites) },
  { attacker: moveEvents, count: Number(values.moves) },
  { attacker: deleteRows, count: Number(values.deletions) },
  { attacker: cutWithinWindow, count: CUTS_IN_WINDOW },
];
const outcomes = [];
for (let each = seed; each < seed + Number(values.seeds); each++)
  outcomes.push(...(await runTrials(world, randomFrom(each), trials)));
const { kinds, missed } = tally(outcomes);
const rows = kinds.map(({ kind, attempted, found, exact, named, found_by_older, within_older }) => [
  kind,
  String(attempted),
  String(found),
  String(exact),
  String(named),
  String(found_by_older),
  String(within_older),
]);
process.stderr.write(`${showTable(HEADINGS, rows)}\n`);
const seconds = Math.round((performance.now() - startedMs) / 100) / 10;
const report = {
  seed,
  seeds: Number(values.seeds),
  events,
  seconds,
  kinds,
  missed: missed.length,
  shown: missed.slice(0, MISSED_SHOWN),
};
process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
process.exitCode = missed.length === 0 ? 0 : 1;
