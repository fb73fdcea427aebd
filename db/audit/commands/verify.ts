import { existsSync } from 'node:fs';
import { Option } from 'commander';
import { asAuditor } from '#db/audit/commands/auditor.ts';
import { type Evidence, readCheckpoints } from '#db/audit/verify/evidence.ts';
import { readKeys } from '#db/audit/commands/verifier-keys.ts';
import { Progress } from '#db/audit/commands/progress.ts';
import { recordReading } from '#db/audit/commands/source-options.ts';
import { verifyDatabase } from '#db/audit/verify/database.ts';
import { verifyFiles } from '#db/audit/verify/files.ts';
import { type Finding, type Report, type Trust } from '#db/audit/verify/report.ts';
import { FINDINGS_MAX } from '#db/audit/bounds.ts';
import { collect, type Command, FoundFault } from '#db/command-line/command.ts';
import { print, withJson } from '#db/command-line/print.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { publishDirectory } from '#db/tlog/publish-directory.ts';

type Options = { published?: string; checkpoint?: string[]; key?: string[]; archiveDir?: string };

/** Adds `daybook audit verify`. */
export function verifyCommand(audit: Command): void {
  withJson(
    audit.command('verify').argument('[files...]', 'exported files, in any order; the database when absent'),
  )
    .description(
      'verify every event, batch, signature and checkpoint of the log, in the database or in exported ' +
        'files; reports the first invalid position and exits with 1',
    )
    .option(
      '--published <directory>',
      'directory that the log is published in (default: PUBLISH_DIR, or beside the data directory)',
    )
    .option('--checkpoint <file>', 'a checkpoint from your own records; repeatable', collect)
    .option(
      '--key <key>',
      'a verifier key that you trust, or a file of such keys; repeatable (default: DAYBOOK_VERIFIER_KEY)',
      collect,
    )
    .addOption(
      new Option('--archive-dir <directory>', 'directory with the files of archived partitions').env(
        'ARCHIVE_DIR',
      ),
    )
    .action(async (files: string[], options: Options, command: Command) => {
      const evidence = await readEvidence(command, options, files.length > 0);
      const report =
        files.length > 0
          ? await runOnFiles(command, files, evidence)
          : await runOnDatabase(command, evidence);
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
  if (given !== undefined && !existsSync(given)) throw new StoreError(`--published: ${given} does not exist`);
  // The default directory belongs to this installation's database, so it says nothing about files.
  const usual = isOfFiles ? undefined : publishDirectory({ DAYBOOK_DATA: env['DAYBOOK_DATA'] || './data' });
  const published = given ?? (usual !== undefined && existsSync(usual) ? usual : undefined);
  const keys = options.key ?? [env['DAYBOOK_VERIFIER_KEY'] || []].flat();
  return {
    published,
    checkpoints: await readCheckpoints(options.checkpoint ?? []),
    ...(keys.length > 0 ? { keys: readKeys(keys, 'ed25519') } : {}),
    archive: options.archiveDir,
  };
}

async function runOnFiles(command: Command, files: string[], evidence: Evidence): Promise<Report> {
  return withProgress(command, (onProgress) => verifyFiles(files, evidence, { onProgress }));
}

async function runOnDatabase(command: Command, evidence: Evidence): Promise<Report> {
  const reports: Report[] = [];
  await asAuditor(command, async (client) => {
    const report = await withProgress(command, (onProgress) =>
      verifyDatabase(client, evidence, { onProgress }),
    );
    reports.push(report);
    // The report is most needed on a log that can't be appended to.
    await recordReading(command, client, 'verify', { after: report.first - 1, upTo: report.head }).catch(
      (error: Error) => report.notes.push(`this read is not recorded in the log: ${error.message}`),
    );
  });
  return reports[0] as Report;
}

async function withProgress(
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

const TRUST_TEXT: Record<Trust, string> = {
  given: 'signatures were checked with the given keys',
  published:
    'signatures were checked with the keys that the log itself published (trust on first use). Record ' +
    'them, and pass them with --key from now on',
  log:
    'signatures were checked only with keys that the log itself names, which anyone with write access to ' +
    'the database could forge. Pass --published, --checkpoint and --key',
  none: 'no verifier key is known, so no signature was checked',
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
  const scope = [
    `${events} events, ${batches} batches, ${checkpoints} checkpoints`,
    `positions ${first} to ${head}`,
  ].join('; ');
  const lines =
    findings.length > 0
      ? [
          `VERIFICATION FAILED: the first invalid position is ${findings[0]?.position}.`,
          ...findings.map(showFinding),
          ...(findings.length >= FINDINGS_MAX ? [`… stopped after ${FINDINGS_MAX} findings`] : []),
          `Read: ${scope}.`,
        ]
      : [`Verified: ${scope}${root === null ? '' : `; root ${root}`}.`];
  if (covered > 0)
    lines.push(
      'Covered by a signed checkpoint up to position ' +
        `${covered}${publishedAt === null ? '' : ` (published ${publishedAt})`}.`,
    );
  else
    lines.push('Not covered by a signed checkpoint: a log rewritten from end to end would not be detected.');
  if (covered > 0 && covered < head)
    lines.push(
      `The newest ${head - covered} events (up to 10 seconds of a running log) are not covered by a ` +
        'checkpoint yet.',
    );
  return [
    ...lines,
    ...notes.map((note) => `Note: ${note}.`),
    `${TRUST_TEXT[trust]}.`.replace(/^./, (letter) => letter.toUpperCase()),
  ].join('\n');
}

function showFinding({ position, to, table, problem }: Finding): string {
  return (
    '  ' +
    `${to === undefined || to === position ? `position ${position}` : `positions ${position} to ${to}`}, ` +
    `${table}: ${problem}`
  );
}
