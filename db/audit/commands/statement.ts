import { sql } from 'kysely';
import type { Client } from 'pg';
import {
  foldPart,
  onSource,
  type SourceOptions,
  recordReading,
  withSourceOptions,
} from '#db/audit/commands/source-options.ts';
import { QuotaWindows } from '#db/audit/replay/quota-windows.ts';
import { findAccount } from '#db/audit/replay/snapshot.ts';
import type { Source } from '#db/audit/source/source.ts';
import { type Month, parseMonth, Statements } from '#db/audit/replay/statement.ts';
import { type StatementReport, showStatements, statementsCsv } from '#db/audit/commands/statement-text.ts';
import { statementVerifyCommand } from '#db/audit/commands/statement-verify.ts';
import { Subjects } from '#db/audit/replay/subjects.ts';
import { type FilterOptions, readFilterOptions, withFilterOptions } from '#db/command-line/call-filter.ts';
import { type Command, FoundFault } from '#db/command-line/command.ts';
import { print, withJson } from '#db/command-line/print.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { type ControlEvent, EVENT_CODES, type Placed } from '#db/events/events.ts';
import { allReadable, type LogRange, PAGE_ROWS, readRows, UnreadableEventError } from '#db/log/read.ts';
import { db, onlyRowOf } from '#db/schema/query.ts';
import type { Functions } from '#db/schema/tables.ts';

type Options = SourceOptions & {
  account?: string;
  month?: string;
  all?: boolean;
  csv?: boolean;
  upstreamCost?: boolean;
} & FilterOptions;

/** `daybook audit statement`: the usage of an account in a month, from the events alone. */
export function statementCommand(audit: Command): void {
  const statement = withSourceOptions(withJson(audit.command('statement')))
    .description(
      "show an account's usage of a month as invoice lines, from the events alone; --all shows every " +
        "account and compares the sum with the log's total",
    )
    .option('--account <name|id>', 'the account')
    .option('--all', 'all accounts')
    .option(
      '--month <yyyy-mm>',
      'the month, in UTC; a request belongs to the month in which it ended, a correction to that in which ' +
        'it was recorded',
    );
  withFilterOptions(statement, 'requests with')
    .option('--upstream-cost', 'show the upstream cost beside the charge; --json always has it')
    .option('--csv', 'print the lines as CSV')
    .action((options: Options, command: Command) =>
      onSource(command, options, (source, client) => printStatements(command, options, source, client)),
    );
  statementVerifyCommand(statement);
}

async function printStatements(
  command: Command,
  options: Options,
  source: Source,
  client: Client | null,
): Promise<void> {
  const { account, all, month: text = '', csv, upstreamCost: hasUpstreamCost = false } = options;
  const filter = readFilterOptions(options);
  const isFiltered = Object.keys(filter).length > 0;
  const month = parseMonth(text);
  if (month === null)
    throw new StoreError(
      text === '' ? 'no month given. Name one with --month' : `"${text}" is not a month such as 2026-11`,
    );
  if ((account === undefined) === (all !== true))
    throw new StoreError('no account given. Name one with --account, or pass --all');
  const part = await partOf(source, month);
  await recordReading(command, client, 'statement', part);
  const statements = new Statements(month, filter);
  const subjects = new Subjects(new QuotaWindows(), false);
  if (client !== null && part.after >= source.first) await loadNames(client, subjects, part.after);
  const read = { first: null as number | null, last: null as number | null, isComplete: false };
  await foldPart(command, source, part, 'read', (event) => {
    if (event instanceof UnreadableEventError)
      throw new StoreError(
        `${event.message}: a statement needs every event of its month. Run "audit verify" for details`,
      );
    if (event.at >= month.until) read.isComplete = true;
    if (read.isComplete) return false;
    if (isControl(event)) subjects.apply(event, ignore);
    if (event.at < month.from) return true;
    read.first ??= event.position;
    read.last = event.position;
    statements.add(event);
    return true;
  });
  const ids =
    account === undefined ? statements.accounts : [findAccount(subjects.accounts.values(), account).id];
  const own = ids.map((id) => ({
    ...statements.of(id),
    name: subjects.accounts.get(id)?.name ?? id,
    keys: keyNames(subjects, id),
  }));
  const shown: StatementReport = {
    month: month.name,
    from: month.from.toISOString(),
    until: month.until.toISOString(),
    filter,
    is_complete: read.isComplete || part.upTo < source.head,
    first_position: read.first,
    last_position: read.last,
    statements: own,
    total: all === true && !isFiltered ? await totalOf(own, statements, client, source, read) : null,
  };
  if (csv === true) command.surroundings.out(statementsCsv(shown, hasUpstreamCost));
  else print(command, shown, (report) => showStatements(report, hasUpstreamCost));
  if (shown.total?.is_equal === false) throw new FoundFault();
}

/** The range of the log that the month lies in; the full log for a source without an index on time. */
async function partOf(source: Source, month: Month): Promise<LogRange> {
  const from = await source.seek(month.from);
  const until = await source.seek(month.until);
  return {
    after: Math.max(source.first, from ?? 0) - 1,
    upTo: until === null ? source.head : Math.max(source.first, until) - 1,
  };
}

/** Loads the names of accounts and keys as they were before the range that is read. */
async function loadNames(client: Client, subjects: Subjects, upTo: number): Promise<void> {
  for (let after = 0; after < upTo;) {
    const page = await readRows(client, after, 'control');
    for (const placed of allReadable(page))
      if (isControl(placed) && placed.position <= upTo) subjects.apply(placed, ignore);
    after = page.length < PAGE_ROWS ? upTo : (page.at(-1)?.position ?? upTo);
  }
}

const isControl = (placed: Placed): placed is Placed<ControlEvent> => 'actor' in placed.event;
/** The order of streams is checked by `audit replay`. */
const ignore = (): void => undefined;

function keyNames({ keys }: Subjects, account: string): Record<string, string> {
  return Object.fromEntries(
    [...keys.values()].filter((key) => key.account === account).map(({ id, name }) => [id, name]),
  );
}

const SETTLED = sql.lit(EVENT_CODES['request.settled']);
const ABANDONED = sql.lit(EVENT_CODES['request.abandoned']);
const ADJUSTED = sql.lit(EVENT_CODES['usage.adjusted']);

/** The expected total, computed by the database. */
const sumOf = (first: number, last: number) =>
  db.selectFrom(sql<Functions['daybook.events']>`daybook.events(${first - 1}, ${last})`.as('event')).select([
    sql<string>`count(*) filter (where type in (${SETTLED}, ${ABANDONED}))`.as('requests'),
    sql<string>`coalesce(sum(case when type in (${SETTLED}, ${ADJUSTED}) then cost_nanousd
        when type = ${ABANDONED} then hold_cost_nanousd end), 0)`.as('cost'),
  ]);

/** The sum over the statements beside the sum computed from the log without them. */
async function totalOf(
  own: readonly { requests: number; cost_nanousd: bigint }[],
  statements: Statements,
  client: Client | null,
  source: Source,
  { first, last }: { first: number | null; last: number | null },
): Promise<StatementReport['total']> {
  const requests = own.reduce((sum, each) => sum + each.requests, 0);
  const cost = own.reduce((sum, each) => sum + each.cost_nanousd, 0n);
  let log = { requests: statements.endings, cost: statements.totalNanousd };
  // For files and archived partitions the second sum is the one accumulated while reading.
  if (client !== null && first !== null && last !== null && source.isLive(first)) {
    const sum = await onlyRowOf(client, sumOf(first, last));
    log = { requests: Number(sum.requests), cost: BigInt(sum.cost) };
  }
  const isEqual = requests === log.requests && cost === log.cost && statements.totalNanousd === log.cost;
  return {
    requests,
    cost_nanousd: cost,
    log_requests: log.requests,
    log_cost_nanousd: log.cost,
    is_equal: isEqual,
  };
}
