import { existsSync } from 'node:fs';
import { Option } from 'commander';
import { asAuditor } from '#db/audit/source/database.ts';
import { type Evidence, readCheckpoints } from '#db/audit/verify/evidence.ts';
import { readKeys } from '#db/audit/commands/verifier-keys.ts';
import { Progress } from '#db/audit/commands/progress.ts';
import { recordReading } from '#db/audit/source/reading.ts';
import { verifyDatabase } from '#db/audit/verify/verify.ts';
import { verifyFiles } from '#db/audit/verify/files.ts';
import { type Finding, FINDINGS_MAX, type Report, type Trust } from '#db/audit/verify/report.ts';
import { type Command, FoundFault } from '#db/command-line/command.ts';
import { print, withJson } from '#db/command-line/print.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { publishDirectory } from '#db/tlog/published.ts';

type Options = { published?: string; checkpoint: string[]; key: string[]; archiveDir?: string };

const collect = (value: string, before: string[]): string[] => [...before, value];

/** `daybook audit verify` */
export function verifyCommand(audit: Command): void {
  withJson(audit.command('verify [files...]'))
    .description(
      'check every event, batch, signature and checkpoint of the log, in the database or in exported files; names the first bad position and exits with 1',
    )
    .option(
      '--published <directory>',
      'where the log is published; PUBLISH_DIR, or beside the data directory',
    )
    .option('--checkpoint <file>', 'a checkpoint that you have kept; can be given many times', collect, [])
    .option(
      '--key <key>',
      'the verifier key that you trust, or a file with such keys; DAYBOOK_VERIFIER_KEY; can be given many times',
      collect,
      [],
    )
    .addOption(
      new Option('--archive-dir <directory>', 'where the files lie of what has left the database').env(
        'ARCHIVE_DIR',
      ),
    )
    .action(async (files: string[], options: Options, command: Command) => {
      const evidence = await readEvidence(command, options, files.length > 0);
      const report =
        files.length > 0
          ? await verifyTheseFiles(command, files, evidence)
          : await verifyThisDatabase(command, evidence);
      print(command, report, showReport);
      if (report.findings.length > 0) throw new FoundFault();
    });
}

async function readEvidence(
  { surroundings: { env } }: Command,
  options: Options,
  isOfFiles: boolean,
): Promise<Evidence> {
  const given = options.published ?? (env['PUBLISH_DIR'] || undefined);
  if (given !== undefined && !existsSync(given))
    throw new StoreError(`nothing is published in ${given}: there is no such directory`);
  // Where a database's own directory would be is looked at only for a database.
  const usual = isOfFiles ? undefined : publishDirectory({ DAYBOOK_DATA: env['DAYBOOK_DATA'] || './data' });
  const published = given ?? (usual !== undefined && existsSync(usual) ? usual : undefined);
  const keys = options.key.length > 0 ? options.key : [env['DAYBOOK_VERIFIER_KEY'] || []].flat();
  return {
    published,
    checkpoints: await readCheckpoints(options.checkpoint),
    ...(keys.length > 0 ? { keys: readKeys(keys, 'ed25519') } : {}),
    archive: options.archiveDir,
  };
}

async function verifyTheseFiles(command: Command, files: string[], evidence: Evidence): Promise<Report> {
  return shown(command, (onProgress) => verifyFiles(files, evidence, { onProgress }));
}

async function verifyThisDatabase(command: Command, evidence: Evidence): Promise<Report> {
  const reports: Report[] = [];
  await asAuditor(command, async (client) => {
    const report = await shown(command, (onProgress) => verifyDatabase(client, evidence, { onProgress }));
    reports.push(report);
    await recordReading(command, client, 'verify', { after: report.first - 1, upTo: report.head });
  });
  return reports[0] as Report;
}

async function shown(
  command: Command,
  verify: (onProgress: (done: number, total: number) => void) => Promise<Report>,
): Promise<Report> {
  let progress: Progress | undefined;
  let before = 0;
  try {
    return await verify((done, total) => {
      progress ??= new Progress(command, 'verified', total);
      progress.add(done - before);
      before = done;
    });
  } finally {
    progress?.end();
  }
}

const WHOM: Record<Trust, string> = {
  given: 'signatures were checked with the key that was given',
  published:
    'signatures were checked with the keys that the log itself has published: trust on first use. Keep them, and give them by --key from now on',
  log: 'signatures were checked with the keys that the log itself names, and nothing from outside of it: whoever may write to the database could have made them. Give --published, --checkpoint and --key',
  none: 'no key is known, so no signature was checked',
};

function showReport(report: Report): string {
  const {
    events,
    batches,
    checkpoints,
    first,
    head,
    root,
    covered,
    published_at: publishedAt,
    findings,
    notes,
    trust,
  } = report;
  const of = `${events} events, ${batches} batches, ${checkpoints} checkpoints; positions ${first} to ${head}`;
  const lines =
    findings.length > 0
      ? [
          `NOT SOUND: the first bad position is ${findings[0]?.position}.`,
          ...findings.map(showFinding),
          ...(findings.length >= FINDINGS_MAX ? ['… and perhaps more'] : []),
          `Read: ${of}.`,
        ]
      : [`Sound: ${of}${root === null ? '' : `; root ${root}`}.`];
  if (covered > 0)
    lines.push(
      `Covered by a signed checkpoint up to position ${covered}${publishedAt === null ? '' : `, published at ${publishedAt}`}.`,
    );
  else
    lines.push(
      'Covered by no signed checkpoint: what somebody rewrote from end to end would not be noticed.',
    );
  if (covered > 0 && covered < head)
    lines.push(
      `The newest ${head - covered} events (up to 10 seconds of a running log) are covered by no checkpoint yet.`,
    );
  return [
    ...lines,
    ...notes.map((note) => `Note: ${note}.`),
    `${WHOM[trust]}.`.replace(/^./, (letter) => letter.toUpperCase()),
  ].join('\n');
}

function showFinding({ position, to, table, problem }: Finding): string {
  return `  ${to === undefined || to === position ? `position ${position}` : `positions ${position} to ${to}`}, ${table}: ${problem}`;
}
