import {
  foldPart,
  onSource,
  parseAt,
  type Places,
  recordReading,
  withPlaces,
} from '#db/audit/source/reading.ts';
import { showSnapshot } from '#db/audit/commands/replay-text.ts';
import { accountNamed, snapshotOf } from '#db/audit/replay/snapshot.ts';
import type { Part, Source } from '#db/audit/source/source.ts';
import { AuditState } from '#db/audit/replay/state.ts';
import { type Command, FoundFault } from '#db/command-line/command.ts';
import { print, withJson } from '#db/command-line/print.ts';
import { StoreError } from '#db/postgres/connect.ts';

type Options = Places & { at?: string; account?: string };

/** `daybook audit replay`: the state at a position or moment, folded from the events alone. */
export function replayCommand(audit: Command): void {
  withPlaces(withJson(audit.command('replay')))
    .description(
      'the state of accounts, keys, plans, quotas and usage then, folded from the events alone; exits with 1 where the log breaks a promise',
    )
    .option(
      '--at <position|time>',
      'after this position, or at this moment (UTC); the end of the log when absent',
    )
    .option('--account <name|id>', 'show this account alone')
    .action((options: Options, command: Command) =>
      onSource(command, options, async (source, client) => {
        const at = options.at === undefined ? source.head : parseAt(options.at);
        const part = await partUpTo(source, at);
        await recordReading(command, client, 'replay', part);
        const state = new AuditState(part.after);
        const read = await foldPart(command, source, part, 'replayed', (event) => {
          if (at instanceof Date && 'at' in event && event.at > at) return false;
          state.take(event);
          return true;
        });
        const only =
          options.account === undefined
            ? undefined
            : accountNamed(state.subjects.accounts.values(), options.account).id;
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
 * From the beginning up to a position or a moment; where only reading tells of times, the fold says when it
 * is over.
 */
async function partUpTo(source: Source, at: number | Date): Promise<Part> {
  const after = source.first - 1;
  if (at instanceof Date) {
    const behind = await source.seek(new Date(at.getTime() + 1));
    return { after, upTo: behind === null ? source.head : Math.max(after, behind - 1) };
  }
  if (at > source.head || at < after)
    throw new StoreError(`the log goes from position ${source.first} to ${source.head}; there is no ${at}`);
  return { after, upTo: at };
}
