import type { Client } from 'pg';
import { asAuditor } from '#db/audit/commands/auditor.ts';
import { compareTotals, type Difference, readProjectedTotals } from '#db/audit/replay/diff.ts';
import { foldPart, type SourceOptions, recordReading } from '#db/audit/commands/source-options.ts';
import { ReplayState, type Fault } from '#db/audit/replay/state.ts';
import { fullLogSource } from '#db/audit/source/full-log.ts';
import { type Command, FoundFault } from '#db/command-line/command.ts';
import { print, withJson } from '#db/command-line/print.ts';
import { readHead } from '#db/log/read.ts';
import { compare, type Comparison, isEqual } from '#db/projections/compare.ts';
import { parseProjection, showComparison } from '#db/projections/comparison-text.ts';
import type { Projection } from '#db/projections/projection.ts';
import { PROJECTIONS } from '#db/projections/projections.ts';
import { Option } from 'commander';

type Options = Pick<SourceOptions, 'archiveDir'> & { projection?: Projection };

/** The projected totals compared with an independent fold in Node; null if the tables are incomplete. */
type SecondOpinion = {
  position: number;
  events_per_s: number;
  disagreements: Difference[];
  faults: Fault[];
  fault_count: number;
} | null;
type DiffReport = { differences: number; position: number; projections: Comparison[]; second: SecondOpinion };

/** `daybook audit diff`: compares the projections with the log in two independent ways. */
export function diffCommand(audit: Command): void {
  withJson(audit.command('diff'))
    .description(
      'compare the projections with the log: row by row with a replay by the code that fills them, and ' +
        'in totals with a fold that shares no code with it; exits with 1 if they differ',
    )
    .addOption(
      new Option('--projection <name>', 'compare only this projection, row by row').argParser(
        parseProjection,
      ),
    )
    .addOption(
      new Option('--archive-dir <directory>', 'directory with the files of archived partitions').env(
        'ARCHIVE_DIR',
      ),
    )
    .action((options: Options, command: Command) =>
      asAuditor(command, async (client) => {
        await recordReading(command, client, 'diff', { after: 0, upTo: await readHead(client) });
        const projections: Comparison[] = [];
        for (const projection of options.projection ? [options.projection] : PROJECTIONS)
          projections.push(await compare(client, projection));
        const second = options.projection
          ? null
          : await foldIndependently(command, client, options.archiveDir);
        const rows = projections.reduce((sum, { differing, faults }) => sum + differing + faults.length, 0);
        const found: DiffReport = {
          differences: rows + (second === null ? 0 : second.disagreements.length + second.fault_count),
          position: Math.max(...projections.map(({ position }) => position), second?.position ?? 0),
          projections,
          second,
        };
        print(command, found, (each) => showReport(each, options.projection !== undefined));
        if (found.differences > 0 || !projections.every(isEqual)) throw new FoundFault();
      }),
    );
}

async function foldIndependently(
  command: Command,
  client: Client,
  archiveDir: string | undefined,
): Promise<SecondOpinion> {
  const tables = await readProjectedTotals(client);
  if (tables === null) return null;
  const source = await fullLogSource(client, archiveDir);
  const state = new ReplayState();
  const { events_per_s } = await foldPart(
    command,
    source,
    { after: 0, upTo: tables.position },
    'folded',
    (event) => {
      state.apply(event);
      return true;
    },
  );
  const { faults, faultCount: fault_count } = state;
  return {
    position: tables.position,
    events_per_s,
    disagreements: compareTotals(state, tables),
    faults,
    fault_count,
  };
}

function showReport({ differences, position, projections, second }: DiffReport, isOne: boolean): string {
  return [
    ...projections.map(showComparison),
    ...(isOne ? [] : showSecond(second)),
    `${differences} ${differences === 1 ? 'difference' : 'differences'}, at position ${position}`,
  ].join('\n');
}

function showSecond(second: SecondOpinion): string[] {
  if (second === null) return ['independent fold: skipped, since the usage tables are incomplete'];
  const { disagreements: found, faults, position, events_per_s } = second;
  const verdict =
    found.length === 0 ? 'usage, open requests and quotas match' : `${found.length} totals differ`;
  return [
    `independent fold: ${verdict}, at position ${position} (${events_per_s} events/s)`,
    ...found.map(
      ({ table, what, figure, projected, folded }) =>
        `  ${table} ${what}: ${figure} is ${projected}, expected ${folded}`,
    ),
    ...faults.map(({ position: at, problem }) => `  position ${at}: ${problem}`),
  ];
}
