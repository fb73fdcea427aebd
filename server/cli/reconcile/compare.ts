import { Option } from 'commander';
import { Progress } from '#db/audit/commands/progress.ts';
import { collect, type Command } from '#db/command-line/command.ts';
import { withJson } from '#db/command-line/print.ts';
import { parseAmount } from '#db/money.ts';
import { BillFormatError } from '#db/reconcile/bill/format-error.ts';
import type { Bill } from '#db/reconcile/bill/line.ts';
import { BILL_FORMATS, type BillFormat, joinBills } from '#db/reconcile/bill/read-bill.ts';
import { readBillFile } from '#db/reconcile/bill/read-file.ts';
import type { Report } from '#db/reconcile/report/report.ts';
import { reportText } from '#db/reconcile/report/text.ts';
import { run } from '#server/cli/control-session.ts';
import { compareBill, type CompareTerms } from '#server/control/reconcile/compare.ts';
import { recordReconciliation } from '#server/control/reconcile/record.ts';
import { DecisionError } from '#server/decide/decision.ts';

type Options = {
  format: BillFormat;
  provider?: string;
  timeZone?: string;
  upstream?: string[];
  model?: string[];
  credential?: string[];
  rate?: string[];
  tolerance: string;
  tolerancePpm: string;
  archiveDir?: string;
  dryRun?: true;
};

/** Of a relative tolerance: a percent. */
const PPM_MAX = 10_000;

/** `daybook reconcile compare` */
export function compareCommand(reconcile: Command): void {
  withJson(reconcile.command('compare').argument('<files...>', 'the files of one bill'))
    .description("compare a provider's bill with the log, class every difference and record the result")
    .addOption(new Option('--format <name>', 'of the files').choices(BILL_FORMATS).default('bill'))
    .option('--provider <name>', 'the issuer of a bill in FOCUS or CSV')
    .option('--time-zone <name>', 'of the days of a bill in CSV; default: UTC')
    .option('--upstream <name>', 'only calls of this upstream; repeatable; default: all', collect)
    .option('--model <bill=name>', "a model's name on the bill and in the log; repeatable", collect)
    .option('--credential <bill=id>', "a credential's name on the bill, and its id or label here", collect)
    .option('--rate <currency=dollars>', 'dollars for one unit of a currency, such as EUR=1.0837', collect)
    .option('--tolerance <dollars>', 'differences up to this amount are marked as within tolerance', '0')
    .option('--tolerance-ppm <number>', 'the same in millionths of the billed amount', '0')
    .addOption(
      new Option('--archive-dir <directory>', 'directory with the files of archived partitions').env(
        'ARCHIVE_DIR',
      ),
    )
    .option('--dry-run', 'print the report without recording it')
    .action((files: string[], options: Options, command: Command) =>
      run(
        command,
        async ({ client, control }) => {
          const terms = termsOf(options);
          const bill = await readFiles(files, options);
          let progress: Progress | undefined;
          const report = await compareBill(client, bill, terms, {
            archiveDir: options.archiveDir,
            onProgress: (done, of) => {
              progress ??= new Progress(command, 'compared', of);
              progress.add(done);
            },
          }).finally(() => progress?.end());
          if (options.dryRun !== true) await recordReconciliation(client, control, report);
          return { is_recorded: options.dryRun !== true, ...report };
        },
        (report) => showCompared(report),
      ),
    );
}

function showCompared(report: Report & { is_recorded: boolean }): string {
  const end = report.is_recorded
    ? `Recorded. Show it with: daybook reconcile show ${report.reconciliation}`
    : 'Not recorded.';
  return `${reportText(report)}\n\n${end}`;
}

async function readFiles(files: readonly string[], options: Options): Promise<Bill> {
  try {
    const bills: Bill[] = [];
    for (const file of files)
      bills.push(
        await readBillFile(file, options.format, { provider: options.provider, timeZone: options.timeZone }),
      );
    return joinBills(bills as [Bill, ...Bill[]]);
  } catch (error) {
    if (error instanceof BillFormatError) throw new DecisionError('invalid', error.message);
    throw error;
  }
}

function termsOf({ upstream = [], tolerance, tolerancePpm, ...options }: Options): CompareTerms {
  const nanousd = parseAmount(tolerance);
  if (nanousd === null)
    throw new DecisionError('invalid', `--tolerance ${tolerance} is no amount in dollars such as 0.01.`);
  if (!/^\d{1,5}$/.test(tolerancePpm) || Number(tolerancePpm) > PPM_MAX)
    throw new DecisionError('invalid', `--tolerance-ppm must be a number from 0 to ${PPM_MAX}.`);
  const rates = [...pairs(options.rate, 'rate')].map(([currency, dollars]) => {
    const rate = parseAmount(dollars);
    if (rate === null || rate === 0)
      throw new DecisionError('invalid', `--rate ${currency}=${dollars} is no amount in dollars.`);
    return [currency.toUpperCase(), BigInt(rate)] as const;
  });
  return {
    upstreams: upstream,
    models: pairs(options.model, 'model'),
    credentials: pairs(options.credential, 'credential'),
    rates: new Map(rates),
    tolerance: { nanousd: BigInt(nanousd), ppm: Number(tolerancePpm) },
  };
}

/** Options of the form `NAME=VALUE`; a name may contain equal signs. */
function pairs(options: readonly string[] = [], name: string): Map<string, string> {
  return new Map(
    options.map((text) => {
      const at = text.lastIndexOf('=');
      if (at < 1 || at === text.length - 1)
        throw new DecisionError('invalid', `--${name} ${text} is not of the form NAME=VALUE.`);
      return [text.slice(0, at), text.slice(at + 1)];
    }),
  );
}
