import { Option } from 'commander';
import { asAuditor } from '#db/audit/commands/auditor.ts';
import { recordReading } from '#db/audit/commands/source-options.ts';
import { type WrittenTiles, writeTlogTiles } from '#db/audit/tiles.ts';
import type { Command } from '#db/command-line/command.ts';
import { print, withJson } from '#db/command-line/print.ts';
import { readHead } from '#db/log/read.ts';

type Options = { out: string; archiveDir?: string };

/** Adds `daybook audit tiles`. */
export function tilesCommand(audit: Command): void {
  withJson(audit.command('tiles'))
    .description(
      'write checkpoint, tiles and entry bundles (c2sp.org/tlog-tiles) of the whole log into a directory ' +
        'that monitors read over any web server',
    )
    .requiredOption('--out <directory>', 'directory that is created')
    .addOption(
      new Option('--archive-dir <directory>', 'directory with the files of archived partitions').env(
        'ARCHIVE_DIR',
      ),
    )
    .action((options: Options, command: Command) =>
      asAuditor(command, async (client) => {
        await recordReading(command, client, 'export', { after: 0, upTo: await readHead(client) });
        const written = await writeTlogTiles(client, {
          directory: options.out,
          archive: options.archiveDir,
        });
        print(command, written, (each) => showWritten(options.out, each));
      }),
    );
}

function showWritten(directory: string, { size, root, bundles }: WrittenTiles): string {
  return `${directory}: checkpoint of size ${size} and root ${root}, ${bundles} entry bundles`;
}
