import { existsSync } from 'node:fs';
import type { Client } from 'pg';
import { asAuditor } from '#db/audit/commands/auditor.ts';
import { type Exported, exportPart } from '#db/audit/export.ts';
import { Progress } from '#db/audit/commands/progress.ts';
import { parseAt, recordReading } from '#db/audit/commands/source-options.ts';
import type { Command } from '#db/command-line/command.ts';
import { print, withJson } from '#db/command-line/print.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { positionAt } from '#db/log/lookup.ts';
import { firstPosition, readHead } from '#db/log/read.ts';
import { publishDirectory } from '#db/tlog/publish-directory.ts';

type Options = { from?: string; to?: string; out: string; published?: string };

/** Adds `daybook audit export`. */
export function exportCommand(audit: Command): void {
  withJson(audit.command('export'))
    .description(
      'write a range of the log to a file, in whole batches, with a manifest and an inclusion proof ' +
        'against a signed checkpoint; "verify <directory>" checks it anywhere',
    )
    .option(
      '--from <position|time>',
      'first position, or a start time, inclusive (default: the first in the database)',
    )
    .option('--to <position|time>', 'last position, or an end time, exclusive (default: the newest)')
    .requiredOption('--out <directory>', 'output directory')
    .option(
      '--published <directory>',
      'directory that the log is published in (default: PUBLISH_DIR, or beside the data directory)',
    )
    .action((options: Options, command: Command) =>
      asAuditor(command, async (client) => {
        const { from, to } = await windowOf(client, options);
        const { env } = command.surroundings;
        const published = publishDirectory({
          DAYBOOK_DATA: env['DAYBOOK_DATA'] || './data',
          PUBLISH_DIR: options.published ?? (env['PUBLISH_DIR'] || undefined),
        });
        const progress = new Progress(command, 'exported', to - from + 1);
        let before = 0;
        const onProgress = (done: number): void => {
          progress.add(done - before);
          before = done;
        };
        try {
          const exported = await exportPart(client, {
            from,
            to,
            directory: options.out,
            published: existsSync(published) ? published : undefined,
            onProgress,
          });
          const { first_position, last_position } = exported.manifest;
          await recordReading(command, client, 'export', { after: first_position - 1, upTo: last_position });
          progress.end();
          print(command, exported, showExported);
        } finally {
          progress.end();
        }
      }),
    );
}

async function windowOf(client: Client, options: Options): Promise<{ from: number; to: number }> {
  const head = await readHead(client);
  const first = await firstPosition(client);
  const from = options.from === undefined ? first : parseAt(options.from);
  const to = options.to === undefined ? head : parseAt(options.to);
  const part = {
    from: from instanceof Date ? Math.max(first, await positionAt(client, from, head)) : from,
    to: to instanceof Date ? (await positionAt(client, to, head)) - 1 : to,
  };
  if (part.from < first)
    throw new StoreError(
      `events before position ${first} are archived; the archive files are exports themselves`,
    );
  if (part.to > head) throw new StoreError(`the log ends at position ${head}`);
  if (part.from > part.to)
    throw new StoreError(`no events from ${options.from ?? first} to ${options.to ?? head}`);
  return part;
}

function showExported({ file, manifest, unproved }: Exported): string {
  const { first_position: first, last_position: last, event_count: count, bytes, proof } = manifest;
  const size =
    proof === undefined ? '' : ` Proven by the checkpoint of size ${proof.checkpoint.split('\n')[1]}.`;
  return (
    `${file}: ${count} events, positions ${first} to ${last}, ${bytes} ` +
    `bytes.${size}${unproved === null ? '' : `\nNot proven by a checkpoint: ${unproved}`}`
  );
}
