import { writeFileSync } from 'node:fs';
import { Option } from 'commander';
import type { ClientBase } from 'pg';
import { parseMonth } from '#db/audit/replay/statement.ts';
import type { Command } from '#db/command-line/command.ts';
import { withJson } from '#db/command-line/print.ts';
import { type BillingTerms, STATEMENT_GROUPS } from '#db/events/billing-events.ts';
import { Pseudonym } from '#db/events/parts.ts';
import { digestOf } from '#db/statement/canonical.ts';
import { statementCsv } from '#db/statement/csv.ts';
import type { StatementGroup } from '#db/statement/document.ts';
import { STATEMENT_EVENTS_MAX, statementFileParts } from '#db/statement/file.ts';
import {
  type BillingEvent,
  documentOf,
  documentTitle,
  invoiceName,
  isBillingEvent,
} from '#db/statement/invoices.ts';
import { type IssuedDocument, readBilled } from '#db/statement/issued.ts';
import { renderPdf } from '#db/statement/pdf/render.ts';
import { proveStatement } from '#db/statement/prove.ts';
import { readInvoices, type ReadStatement, readStatement } from '#db/statement/read.ts';
import { statementText } from '#db/statement/text.ts';
import { dollars, periodText } from '#db/statement/words.ts';
import { run } from '#server/cli/control-session.ts';
import { BillingControl, readIssued, readIssuer } from '#server/control/billing-control.ts';
import { DecisionError } from '#server/decide/decision.ts';

const FORMATS = ['text', 'json', 'csv', 'pdf', 'proof'] as const;
type Format = (typeof FORMATS)[number];

type PeriodOptions = { month?: string; from?: string; to?: string; endUser?: string };
type DocumentOptions = { format: Format; out?: string };
type StatementOptions = PeriodOptions & DocumentOptions & { key?: string; by?: StatementGroup[] };
type IssuerOptions = {
  name?: string;
  address?: string[];
  tax?: string;
  series?: string;
  currency?: string;
  rate?: string;
  digits?: string;
};

/** `daybook statement …` and `daybook invoice …` */
export function statementCommands(program: Command): void {
  withPeriod(withDocument(program.command('statement').argument('<account>', "the account's name")))
    .description(
      "an account's usage and charges of a period, as text, JSON, CSV, PDF or a file that " +
        '"audit statement verify" checks without a server',
    )
    .option('--key <id>', 'only this key')
    .addOption(
      new Option('--by <groups...>', 'what lines are grouped by, besides kind and model').choices([
        ...STATEMENT_GROUPS,
      ]),
    )
    .action(printStatement);

  const invoice = program.command('invoice').description('invoices, their numbers and their issuer');
  withJson(invoice.command('issuer'))
    .description('show or set who issues invoices; absent options stay as they are')
    .option('--name <text>', 'the name')
    .option('--address <lines...>', 'the address, line by line')
    .option('--tax <text>', 'a tax number, or a note on taxes')
    .option('--series <prefix>', 'the text before numbers, such as INV-')
    .option('--currency <code>', 'the currency in which totals are shown beside dollars')
    .option('--rate <number>', 'its fixed rate: units for a dollar')
    .option('--digits <number>', 'its decimal places', '2')
    .action(setIssuer);
  withPeriod(withJson(invoice.command('issue').argument('<account>', "the account's name")))
    .description('issue the invoice of a period that is over; the same period gives the same invoice')
    .action(issue);
  withDocument(invoice.command('show').argument('<number>', 'the number, without its prefix'))
    .description('an invoice, in the formats of a statement')
    .action(showInvoice);
  withJson(invoice.command('list'))
    .description('invoices and credit notes, in the order of their numbers')
    .action(list);
  withJson(invoice.command('credit').argument('<number>', 'the number, without its prefix'))
    .description(
      'take an invoice back by a credit note, with those over its corrections, so that its period can be ' +
        'invoiced again',
    )
    .requiredOption('--reason <text>', 'why; at most 200 characters')
    .action(credit);
  withJson(invoice.command('correct').argument('<number>', 'the number of the invoice, without its prefix'))
    .description(
      'issue a credit note over the corrections of its calls that were recorded after its period and that ' +
        'no document bills',
    )
    .action(correct);
}

function withPeriod(command: Command): Command {
  return command
    .option('--month <yyyy-mm>', 'the month, in UTC')
    .option('--from <time>', 'the start of the period, inclusive: a date or a time')
    .option('--to <time>', 'the end of the period, exclusive')
    .option('--end-user <pseudonym>', 'only this end user');
}

function withDocument(command: Command): Command {
  return command
    .addOption(new Option('--format <format>', 'the format').choices(FORMATS).default('text'))
    .option('--out <file>', 'write to this file; required for pdf');
}

async function printStatement(account: string, options: StatementOptions, command: Command): Promise<void> {
  await run(
    command,
    async ({ control, client, config }) => {
      const { id } = await control.loadAccount(account);
      const request = {
        account: id,
        key: options.key ?? null,
        ...periodOf(options),
        group_by: options.by ?? [],
      };
      const entriesMax = options.format === 'proof' ? STATEMENT_EVENTS_MAX : 0;
      const read = await readStatement(client, request, { entriesMax });
      return write(client, read, null, options, config.WITNESSES);
    },
    (text) => text,
  );
}

async function showInvoice(number: string, options: DocumentOptions, command: Command): Promise<void> {
  await run(
    command,
    async ({ client, config }) => {
      const issued = await readIssued(client, readNumber(number));
      const entriesMax = options.format === 'proof' ? STATEMENT_EVENTS_MAX : 0;
      const read = await readBilled(client, issued.document, { entriesMax });
      return write(client, read, issued, options, config.WITNESSES);
    },
    (text) => text,
  );
}

/** Writes a document to its file. @returns the text to print. */
async function write(
  client: ClientBase,
  read: ReadStatement,
  issued: IssuedDocument | null,
  { format, out }: DocumentOptions,
  witnesses: readonly string[],
): Promise<string> {
  const bytes = await bytesOf(client, read, issued, format, witnesses);
  if (out === undefined) {
    if (format === 'pdf') throw new DecisionError('invalid', 'Name the file of the PDF with --out.');
    return bytes.toString().trimEnd();
  }
  writeFileSync(out, bytes);
  return `${out}: ${bytes.length} bytes written.`;
}

async function bytesOf(
  client: ClientBase,
  read: ReadStatement,
  issued: IssuedDocument | null,
  format: Format,
  witnesses: readonly string[],
): Promise<Buffer> {
  const { statement } = read;
  const document = documentOf(issued);
  switch (format) {
    case 'text':
      return Buffer.from(`${statementText(statement, document)}\n`);
    case 'json':
      return Buffer.from(`${JSON.stringify({ ...statement, invoice: issued?.document ?? null })}\n`);
    case 'csv':
      return Buffer.from(statementCsv(statement));
    case 'pdf': {
      const pdf = await renderPdf({ statement, digest: digestOf(statement), document });
      return pdf as Buffer;
    }
    case 'proof': {
      const file = await proveStatement(client, read, issued?.entry ?? null, witnesses);
      if (file === null)
        throw new DecisionError(
          'not_allowed',
          'No checkpoint covers the statement yet. A running worker publishes one every ten seconds.',
        );
      return Buffer.from([...statementFileParts(file)].join(''));
    }
  }
}

async function setIssuer(options: IssuerOptions, command: Command): Promise<void> {
  await run(
    command,
    async ({ control, client }) => {
      const { name, address, tax, series, currency, rate, digits = '2' } = options;
      const before = await readIssuer(client);
      const isShown = [name, address, tax, series, currency, rate].every((each) => each === undefined);
      if (isShown) return before;
      const terms: BillingTerms = {
        name: name ?? before?.name ?? '',
        address: address ?? before?.address ?? [],
        series: series ?? before?.series ?? 'INV-',
        ...((tax ?? before?.tax) === undefined ? {} : { tax: tax ?? before?.tax }),
        ...currencyOf(currency, rate, digits, before),
      };
      await new BillingControl(control, client).setIssuer(terms);
      return terms;
    },
    (terms) => (terms === null ? 'No issuer is set.' : issuerText(terms)),
  );
}

function currencyOf(
  code: string | undefined,
  rate: string | undefined,
  digits: string,
  before: BillingTerms | null,
): Pick<BillingTerms, 'currency'> {
  if (code === undefined && rate === undefined)
    return before?.currency === undefined ? {} : { currency: before.currency };
  if (code === undefined || rate === undefined)
    throw new DecisionError('invalid', 'Name a currency with its rate: --currency EUR --rate 0.92');
  return { currency: { code, rate, digits: Number(digits) } };
}

const issuerText = ({ name, address, tax, series, currency }: BillingTerms): string =>
  [
    name,
    ...address,
    ...(tax === undefined ? [] : [tax]),
    `Numbers begin with ${series}`,
    currency === undefined ? 'Totals are in US dollars.' : `1 USD = ${currency.rate} ${currency.code}`,
  ].join('\n');

async function issue(account: string, options: PeriodOptions, command: Command): Promise<void> {
  await run(
    command,
    async ({ control, client }) => {
      const { end_user: endUser, ...period } = periodOf(options);
      return new BillingControl(control, client).issue(account, { ...period, end_user: endUser });
    },
    ({ invoice, event }) =>
      event === null
        ? `Invoice ${invoiceName(invoice)} was issued before: ${dollars(invoice.total_nanousd)} dollars.`
        : `Invoice ${invoiceName(invoice)} issued: ${dollars(invoice.total_nanousd)} dollars.`,
  );
}

async function list(_options: object, command: Command): Promise<void> {
  await run(
    command,
    async ({ client }) =>
      (await readInvoices(client)).map(({ placed: { event, at, position } }) => ({ ...event, at, position })),
    (events) =>
      events.length === 0
        ? 'No invoices.'
        : events.flatMap((event) => (isBillingEvent(event) ? [listed(event)] : [])).join('\n'),
  );
}

function listed(event: BillingEvent): string {
  const about =
    event.type === 'invoice.issued'
      ? periodText(event)
      : `${event.type === 'invoice.corrected' ? 'corrects' : 'credits'} ${event.invoice}`;
  return [invoiceName(event), event.account, about, amountOf(event)].join('  ');
}

const amountOf = ({ total_nanousd: total }: { total_nanousd: string }): string => `${dollars(total)} dollars`;

async function credit(number: string, { reason }: { reason: string }, command: Command): Promise<void> {
  await run(
    command,
    ({ control, client }) => new BillingControl(control, client).credit(readNumber(number), reason),
    ({ invoice }) => `Credit note ${invoiceName(invoice)} issued: ${dollars(invoice.total_nanousd)} dollars.`,
  );
}

async function correct(number: string, _options: object, command: Command): Promise<void> {
  await run(
    command,
    ({ control, client }) => new BillingControl(control, client).correct(readNumber(number)),
    (issued) =>
      issued === null
        ? 'No correction that is not billed concerns this invoice.'
        : `${documentTitle(issued.invoice)} issued over ${issued.invoice.corrections.length} corrections: ` +
          `${dollars(issued.invoice.total_nanousd)} dollars.`,
  );
}

function periodOf({ month, from, to, endUser }: PeriodOptions): {
  from: Date;
  to: Date;
  end_user: string | null;
} {
  if (endUser !== undefined && !Pseudonym.safeParse(endUser).success)
    throw new DecisionError('invalid', '--end-user must be a pseudonym of 16 letters and digits.');
  const parsed = month === undefined ? null : parseMonth(month);
  if (parsed !== null) return { from: parsed.from, to: parsed.until, end_user: endUser ?? null };
  const [start, end] = [from, to].map((text) => new Date(text ?? NaN)) as [Date, Date];
  if (month !== undefined || Number.isNaN(start.getTime()) || Number.isNaN(end.getTime()))
    throw new DecisionError('invalid', 'Name a month such as --month 2026-11, or --from and --to.');
  return { from: start, to: end, end_user: endUser ?? null };
}

function readNumber(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new DecisionError('invalid', `"${text}" is not a number of an invoice.`);
  return Number(text);
}
