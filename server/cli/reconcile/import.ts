import { Option } from 'commander';
import { collect, type Command } from '#db/command-line/command.ts';
import { print, withJson } from '#db/command-line/print.ts';
import { dayOf } from '#db/reconcile/bill/days.ts';
import { BillFormatError } from '#db/reconcile/bill/format-error.ts';
import type { Bill } from '#db/reconcile/bill/line.ts';
import { CSV_COLUMNS, type CsvColumns } from '#db/reconcile/bill/plain-csv.ts';
import { BILL_FORMATS, type BillFormat, joinBills } from '#db/reconcile/bill/read-bill.ts';
import { readBillFile } from '#db/reconcile/bill/read-file.ts';
import { summarizeBill } from '#db/reconcile/bill/summary.ts';
import { writeBillFile } from '#db/reconcile/bill/write-file.ts';
import { BillingError } from '#server/billing-api/billing-error.ts';
import { BILLING_APIS, type BillingApiName } from '#server/billing-api/reports.ts';
import { run } from '#server/cli/control-session.ts';
import { showSummary } from '#server/cli/reconcile/show-summary.ts';
import { DecisionError } from '#server/decide/decision.ts';

type Options = {
  from?: BillingApiName;
  upstream?: string;
  since?: string;
  until?: string;
  file?: string[];
  format?: string[];
  provider?: string;
  timeZone?: string;
  currency?: string;
  column?: string[];
  service?: string;
  out?: string;
};

/** `daybook reconcile import` */
export function importCommand(reconcile: Command): void {
  withJson(reconcile.command('import'))
    .description("read a provider's bill from its billing API or from files, and show its sums")
    .option('--upstream <name>', 'fetch the bill of this upstream with its billing credential')
    .addOption(
      new Option('--from <api>', "the billing API; default: that of the upstream's provider").choices(
        BILLING_APIS,
      ),
    )
    .option('--since <date>', 'the first day of a fetched bill, in UTC, such as 2026-10-01')
    .option('--until <date>', 'the day after its last, such as 2026-11-01')
    .option('--file <path>', 'read this file instead; repeatable', collect)
    .option(
      '--format <name>',
      `of the file: ${BILL_FORMATS.join(', ')}; repeatable in the order of the files`,
      collect,
    )
    .option('--provider <name>', 'the issuer of a bill in FOCUS or CSV')
    .option('--time-zone <name>', 'of the days of a bill in CSV; default: UTC')
    .option('--currency <code>', 'of lines in CSV that name none; default: USD')
    .option('--column <name=header>', "the header's name of a column in CSV; repeatable", collect)
    .option('--service <name>', 'only charges of this ServiceName in FOCUS')
    .option('--out <path>', 'write the bill to this file, for "reconcile compare"')
    .action(async (options: Options, command: Command) => {
      if ((options.file === undefined) === (options.upstream === undefined))
        throw new DecisionError('invalid', 'Name either an upstream (--upstream) or a file (--file).');
      if (options.file === undefined)
        await run(
          command,
          async (session) => {
            const interval = intervalOf(options);
            const { fetchUpstreamBill } = await import('#server/billing-api/upstream-bill.ts');
            const request = { api: options.from ?? null, ...interval };
            return finish(
              options,
              await explained(() => fetchUpstreamBill(session, options.upstream ?? '', request)),
            );
          },
          showSummary,
        );
      else
        print(
          command,
          await finish(options, await explained(() => readFiles(options.file ?? [], options))),
          showSummary,
        );
    });
}

async function finish({ out }: Options, bill: Bill): Promise<Parameters<typeof showSummary>[0]> {
  if (out !== undefined) await explained(() => writeBillFile(out, bill));
  return { ...summarizeBill(bill), file: out ?? null };
}

async function readFiles(files: readonly string[], options: Options): Promise<Bill> {
  const { format = [], provider, timeZone, currency, service } = options;
  if (format.length !== files.length && format.length !== 1)
    throw new DecisionError('invalid', 'Name the format of each file (--format), or one for all.');
  const unknown = format.find((name) => !(BILL_FORMATS as readonly string[]).includes(name));
  if (unknown !== undefined)
    throw new DecisionError('invalid', `--format "${unknown}" is not one of ${BILL_FORMATS.join(', ')}.`);
  const terms = { provider, timeZone, currency, service, columns: columnsOf(options.column ?? []) };
  const bills: Bill[] = [];
  for (const [index, file] of files.entries())
    bills.push(await readBillFile(file, (format[index] ?? format[0]) as BillFormat, terms));
  return joinBills(bills as [Bill, ...Bill[]]);
}

function columnsOf(pairs: readonly string[]): CsvColumns {
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf('=');
      const name = pair.slice(0, at);
      if (!(CSV_COLUMNS as readonly string[]).includes(name))
        throw new DecisionError(
          'invalid',
          `--column "${pair}" is not NAME=HEADER, with one of the names ${CSV_COLUMNS.join(', ')}.`,
        );
      return [name, pair.slice(at + 1)];
    }),
  );
}

function intervalOf({ since, until }: Options): { from: Date; to: Date } {
  if (since === undefined || until === undefined)
    throw new DecisionError('invalid', 'A fetched bill needs its first day (--since) and its end (--until).');
  return { from: midnight(since, '--since'), to: midnight(until, '--until') };
}

function midnight(text: string, option: string): Date {
  try {
    return dayOf(text, 'UTC', option).from;
  } catch (error) {
    throw operatorError(error);
  }
}

/** Reads or writes a bill, with errors for the operator. */
async function explained<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw operatorError(error);
  }
}

function operatorError(error: unknown): unknown {
  return error instanceof BillFormatError || error instanceof BillingError
    ? new DecisionError('invalid', error.message)
    : error;
}
