import type { Client } from 'pg';
import { type Command, FoundFault } from '#db/command-line/command.ts';
import { print, withJson } from '#db/command-line/print.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { rowOf } from '#db/schema/query.ts';
import { selectNewestCheckpoint } from '#db/tlog/checkpoint-store.ts';
import { parseCheckpoint } from '#db/tlog/checkpoint.ts';
import { startEpoch, type EpochStart, findPublicationGap, type PublicationGap } from '#db/tlog/epoch.ts';
import { parseNote } from '#db/tlog/note.ts';
import { publishDirectory, readCheckpointFile } from '#db/tlog/publish-directory.ts';
import { onLog } from '#server/cli/log/on-log.ts';
import type { Config } from '#server/process/config.ts';

const ACTOR = 'command-line';

/** `daybook log checkpoint` and `new-epoch`. */
export function logCheckpointCommands(log: Command): void {
  withJson(log.command('checkpoint'))
    .description(
      'print the newest signed checkpoint; a copy kept elsewhere proves later that the log up to it ' +
        'was not changed',
    )
    .action((_options: unknown, command: Command) =>
      onLog(command, 'relay', async (client, config) => {
        const newest = await newestCheckpoint(client, config);
        if (newest === null)
          throw new StoreError(
            'there is no checkpoint yet: the worker signs the first within ten seconds of the first event',
          );
        const { origin, size, root } = parseCheckpoint(parseNote(newest.note).text);
        print(command, { origin, size, root: root.toString('base64'), note: newest.note }, ({ note }) =>
          note.trimEnd(),
        );
      }),
    );

  withJson(log.command('new-epoch'))
    .description(
      'begin a new epoch of a log that was restored from an older backup or truncated; shows the lost ' +
        'events first',
    )
    .option('--yes', 'give up the lost events')
    .action((options: { yes?: boolean }, command: Command) =>
      onLog(command, 'worker', async (client, config) => {
        const directory = publishDirectory(config);
        const loss = await findPublicationGap(client, directory);
        if (loss === null)
          throw new StoreError(
            `no events are lost: the log is consistent with the checkpoint published in ${directory}`,
          );
        const begun = options.yes === true ? await startEpoch(client, directory, loss, ACTOR) : null;
        print(command, { ...toOutput(loss), begun }, () => `${showLoss(loss)}\n${showBegun(begun)}`);
        if (begun === null) throw new FoundFault();
      }),
    );
}

/**
 * The newest checkpoint: from the publication directory or, if that is on another host, the database's copy.
 */
export async function newestCheckpoint(
  client: Client,
  config: Pick<Config, 'DAYBOOK_DATA' | 'PUBLISH_DIR'>,
): Promise<{ note: string } | null> {
  const published = await readCheckpointFile(publishDirectory(config));
  if (published !== null) return { note: published };
  return (await rowOf(client, selectNewestCheckpoint().select('note'))) ?? null;
}

/** The JSON output, with snake_case names. */
function toOutput({ problem, published, publishedAt, agreesUpTo, agreesUntil, head, lost }: PublicationGap) {
  const { origin, size, root } = published;
  return {
    problem,
    published: { origin, size, root: root.toString('base64'), at: publishedAt },
    agrees_up_to: agreesUpTo,
    agrees_until: agreesUntil,
    head,
    lost: lost === null ? null : { first_position: lost.first, last_position: lost.last },
  };
}

function showLoss({
  problem,
  published,
  publishedAt,
  agreesUpTo,
  agreesUntil,
  head,
  lost,
}: PublicationGap): string {
  const time = (at: Date | null): string => (at === null ? '' : `, ${at.toISOString()}`);
  return [
    `${problem}.`,
    `  published   up to position ${published.size}${time(publishedAt)}`,
    `  log         ends at position ${head}`,
    agreesUpTo === null
      ? '  consistent  up to an unknown position; "daybook audit verify" finds it'
      : `  consistent  up to position ${agreesUpTo}${time(agreesUntil)}`,
    ...(lost === null
      ? []
      : [`  lost        ${lost.last - lost.first + 1} events, positions ${lost.first} to ${lost.last}`]),
  ].join('\n');
}

function showBegun(begun: EpochStart | null): string {
  if (begun === null)
    return 'Nothing was changed. To give up the lost events and continue: daybook log new-epoch --yes';
  if (begun === 'repaired')
    return 'Only the tree over the log was wrong, and it was rebuilt. No events are lost.';
  return [
    `Epoch ${begun.epoch} begins at position ${begun.position}.`,
    `New checkpoints have the origin ${begun.origin}; older ones were moved to a directory beside them.`,
  ].join(' ');
}
