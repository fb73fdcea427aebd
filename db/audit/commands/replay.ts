import {
  foldPart,
  onSource,
  parseAt,
  type SourceOptions,
  recordReading,
  withSourceOptions,
} from '#db/audit/commands/source-options.ts';
import { showSnapshot } from '#db/audit/commands/replay-text.ts';
import { findAccount, snapshotOf } from '#db/audit/replay/snapshot.ts';
import type { Source } from '#db/audit/source/source.ts';
import { ReplayState } from '#db/audit/replay/state.ts';
import { type Command, FoundFault } from '#db/command-line/command.ts';
import { print, withJson } from '#db/command-line/print.ts';
import { StoreError } from '#db/postgres/connect.ts';
import type { LogRange } from '#db/log/read.ts';

type Options = SourceOptions & { at?: string; account?: string };

/** `daybook audit replay`: the state at a position or point in time, folded from the events alone. */
export function replayCommand(audit: Command): void {
  withSourceOptions(withJson(audit.command('replay')))
    .description(
      'show accounts, keys, plans, quotas and usage at a point in time, folded from the events alone; ' +
        'exits with 1 if an event violates an invariant',
    )
    .option('--at <position|time>', 'position, or point in time in UTC (default: the end of the log)')
    .option('--account <name|id>', 'show only this account')
    .action((options: Options, command: Command) =>
      onSource(command, options, async (source, client) => {
        const at = options.at === undefined ? source.head : parseAt(options.at);
        const part = await partUpTo(source, at);
        await recordReading(command, client, 'replay', part);
        const state = new ReplayState(part.after);
        const read = await foldPart(command, source, part, 'replayed', (event) => {
          if (at instanceof Date && 'at' in event && event.at > at) return false;
          state.apply(event);
          return true;
        });
        const only =
          options.account === undefined
            ? undefined
            : findAccount(state.subjects.accounts.values(), options.account).id;
        const shown = {
          read: { first_position: part.after + 1, ...read },
          ...snapshotOf(state, at instanceof Date ? at : state.at, only),
        };
        print(command, shown, showSnapshot);
        if (state.faultCount > 0) throw new FoundFault();
      }),
    );
}

/**
 * The range from the beginning up to a position or a point in time. For a source without an index on time
 * the range is the full log, and the fold stops by itself.
 */
async function partUpTo(source: Source, at: number | Date): Promise<LogRange> {
  const after = source.first - 1;
  if (at instanceof Date) {
    const behind = await source.seek(new Date(at.getTime() + 1));
    return { after, upTo: behind === null ? source.head : Math.max(after, behind - 1) };
  }
  if (at > source.head || at < after)
    throw new StoreError(
      `position ${at} is not in the log, which has positions ${source.first} to ${source.head}`,
    );
  return { after, upTo: at };
}
