import type { Client } from 'pg';
import { asAuditor } from '#db/audit/source/database.ts';
import { type Disagreement, disagreements, readTables } from '#db/audit/replay/diff-figures.ts';
import { foldPart, type Places, recordReading } from '#db/audit/source/reading.ts';
import { AuditState, type Fault } from '#db/audit/replay/state.ts';
import { fullLogSource } from '#db/audit/source/full-log.ts';
import { type Command, FoundFault } from '#db/command-line/command.ts';
import { print, withJson } from '#db/command-line/print.ts';
import { readHead } from '#db/log/read.ts';
import { compare, type Comparison, isEqual } from '#db/projections/compare.ts';
import { parseProjection, showComparison } from '#db/projections/comparison-text.ts';
import type { Projection } from '#db/projections/projection.ts';
import { PROJECTIONS } from '#db/projections/projections.ts';
import { Option } from 'commander';

type Options = Pick<Places, 'archiveDir'> & { projection?: Projection };

/** The tables' figures beside those of the fold in Node; null where the tables could not be asked. */
type Second = {
  position: number;
  events_per_s: number;
  disagreements: Disagreement[];
  faults: Fault[];
  fault_count: number;
} | null;
type Found = { differences: number; position: number; projections: Comparison[]; second: Second };

/** `daybook audit diff`: the live tables beside the log, twice. */
export function diffCommand(audit: Command): void {
  withJson(audit.command('diff'))
    .description(
      'the tables beside a replay of the log: row by row by the statements that make them, and in sums by a fold that shares nothing with those; exits with 1 where they differ',
    )
    .addOption(new Option('--projection <name>', 'this one alone, row by row').argParser(parseProjection))
    .addOption(
      new Option('--archive-dir <directory>', 'where the files lie of what has left the database').env(
        'ARCHIVE_DIR',
      ),
    )
    .action((options: Options, command: Command) =>
      asAuditor(command, async (client) => {
        await recordReading(command, client, 'diff', { after: 0, upTo: await readHead(client) });
        const projections: Comparison[] = [];
        for (const projection of options.projection ? [options.projection] : PROJECTIONS)
          projections.push(await compare(client, projection));
        const second = options.projection ? null : await foldBeside(command, client, options.archiveDir);
        const rows = projections.reduce((sum, { differing, faults }) => sum + differing + faults.length, 0);
        const found: Found = {
          differences: rows + (second === null ? 0 : second.disagreements.length + second.fault_count),
          position: Math.max(...projections.map(({ position }) => position), second?.position ?? 0),
          projections,
          second,
        };
        print(command, found, (each) => showFound(each, options.projection !== undefined));
        if (found.differences > 0 || !projections.every(isEqual)) throw new FoundFault();
      }),
    );
}

async function foldBeside(command: Command, client: Client, archiveDir: string | undefined): Promise<Second> {
  const tables = await readTables(client);
  if (tables === null) return null;
  const source = await fullLogSource(client, archiveDir);
  const state = new AuditState();
  const { events_per_s } = await foldPart(
    command,
    source,
    { after: 0, upTo: tables.position },
    'folded',
    (event) => {
      state.take(event);
      return true;
    },
  );
  const { faults, faultCount: fault_count } = state;
  return {
    position: tables.position,
    events_per_s,
    disagreements: disagreements(state, tables),
    faults,
    fault_count,
  };
}

function showFound({ differences, position, projections, second }: Found, isOne: boolean): string {
  return [
    ...projections.map(showComparison),
    ...(isOne ? [] : showSecond(second)),
    `${differences} ${differences === 1 ? 'difference' : 'differences'}, at position ${position}`,
  ].join('\n');
}

function showSecond(second: Second): string[] {
  if (second === null)
    return ['second opinion: the tables of usage are not whole, so there is nothing to compare'];
  const { disagreements: found, faults, position, events_per_s } = second;
  const verdict =
    found.length === 0
      ? 'a fold in Node comes to the same usage, open requests and quotas'
      : `a fold in Node comes to ${found.length} other figures`;
  return [
    `second opinion: ${verdict}, at position ${position} (${events_per_s} events/s)`,
    ...found.map(
      ({ table, what, figure, projected, folded }) =>
        `  ${table} ${what}: ${figure} is ${projected}, not ${folded}`,
    ),
    ...faults.map(({ position: at, problem }) => `  position ${at}: ${problem}`),
  ];
}
