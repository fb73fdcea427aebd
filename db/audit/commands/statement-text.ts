import { type Adjustment, KINDS, type Line, type Statement } from '#db/audit/replay/statement.ts';
import { filterText } from '#db/command-line/call-filter.ts';
import { showTable } from '#db/command-line/table.ts';
import { csvLine } from '#db/csv.ts';
import type { CallFilter } from '#db/fold/call-filter.ts';
import { formatDollars } from '#db/money.ts';

/** Statements as text and as CSV. Pure. */

export type NamedStatement = Statement & { name: string; keys: Record<string, string> };

export type StatementReport = {
  month: string;
  /** The month: `from` is inclusive, `until` exclusive. */
  from: string;
  until: string;
  /** Empty: all requests. */
  filter: CallFilter;
  /** False while the log ends within the month: later events can still change the statements. */
  is_complete: boolean;
  /** The positions that the statements are computed from; null if the month has no event. */
  first_position: number | null;
  last_position: number | null;
  statements: NamedStatement[];
  /**
   * The sum over the statements of all accounts beside the sum computed from the log without them; null if
   * one account was selected.
   */
  total: {
    requests: number;
    cost_nanousd: bigint;
    log_requests: number;
    log_cost_nanousd: bigint;
    is_equal: boolean;
  } | null;
};

const TITLES: Record<Line['kind'], string> = {
  priced: 'Requests',
  abandoned: 'Abandoned requests: their server stopped, so usage is estimated, at most the reservation',
  unpriced: 'Requests for models without a price, at no cost',
  correction: 'Corrections recorded in this month, of requests of any month',
};

/** The statements, followed by their total. */
export function showStatements(shown: StatementReport, hasUpstreamCost = false): string {
  const { first_position, last_position, total } = shown;
  return [
    ...shown.statements.map((statement) => showStatement(statement, shown, hasUpstreamCost)),
    ...(shown.statements.length === 0 ? [`No usage in ${shown.month}.`] : []),
    ...(total === null ? [] : [showTotal(total)]),
    first_position === null
      ? 'The log has no events in this month.'
      : `Computed from positions ${first_position} to ${last_position} of the log. A request belongs to ` +
        'the month in which it ended, a correction to that in which it was recorded.',
    ...(shown.is_complete ? [] : ['The log ends within this month, so the statements are not final.']),
  ].join('\n');
}

function showStatement(
  statement: NamedStatement,
  { from, until, filter }: StatementReport,
  hasUpstreamCost: boolean,
): string {
  const { account, name, keys, lines, adjustments, refused, requests, cost_nanousd } = statement;
  const parts = KINDS.map((kind) => ({ kind, own: lines.filter((line) => line.kind === kind) })).filter(
    ({ own }) => own.length > 0,
  );
  return [
    `Statement of ${name} (${account}), from ${from} to ${until} (UTC)`,
    ...(Object.keys(filter).length === 0 ? [] : [`Only requests with ${filterText(filter)}`]),
    ...parts.map(({ kind, own }) => `\n${TITLES[kind]}\n${showLines(kind, own, keys, hasUpstreamCost)}`),
    '',
    `${requests} requests${refused > 0 ? ` (and ${refused} rejected)` : ''}: ${cost_nanousd} ` +
      `nano-dollars, ${formatDollars(cost_nanousd)} dollars`,
    ...(statement.estimated === 0
      ? []
      : [
          `Estimated, since the provider reported no usage: ${statement.estimated} of these requests, ` +
            `${statement.estimated_cost_nanousd} nano-dollars, ` +
            `${formatDollars(statement.estimated_cost_nanousd)} dollars`,
        ]),
    ...(statement.corrections === 0 ? [] : [`Corrections in this amount: ${statement.corrections}`]),
    ...(hasUpstreamCost
      ? [
          `Upstream cost of all attempts: ${statement.upstream_cost_nanousd} nano-dollars, ` +
            `${formatDollars(statement.upstream_cost_nanousd)} dollars`,
        ]
      : []),
    ...(adjustments.length === 0 ? [] : [`\n${ADJUSTED}\n${showAdjustments(adjustments)}`]),
    '',
  ].join('\n');
}

const ADJUSTED = 'Adjusted usage of quotas, which changes no amount above';

function showAdjustments(adjustments: readonly Adjustment[]): string {
  return showTable(
    ['POSITION', 'KEY', 'METER', 'UNITS', 'WINDOW', 'REASON'],
    adjustments.map(({ position, key = '-', meter, amount, window, reason }) => [
      String(position),
      key,
      meter,
      String(amount),
      window,
      // Quoted: a line break in it must not look like a line of the statement.
      JSON.stringify(reason),
    ]),
  );
}

function showLines(
  kind: Line['kind'],
  lines: readonly Line[],
  keys: Record<string, string>,
  hasUpstreamCost: boolean,
): string {
  const tokens =
    kind === 'abandoned'
      ? ['RESERVED TOKENS']
      : ['INPUT', 'CACHE READ', 'CACHE WRITE', 'OUTPUT', 'REASONING'];
  const isCorrection = kind === 'correction';
  const counted = isCorrection ? ['CORRECTIONS'] : ['REQUESTS', 'ESTIMATED'];
  return showTable(
    [
      ...['KEY', 'NAME', 'MODEL', ...counted, ...tokens, 'NANO-DOLLARS', 'DOLLARS'],
      ...(hasUpstreamCost ? ['UPSTREAM NANO-DOLLARS'] : []),
      ...(isCorrection ? ['REFERENCE', 'REASON'] : []),
    ],
    lines.map((line) => [
      line.key,
      keys[line.key] ?? '',
      line.model,
      ...(isCorrection ? [line.corrections] : [line.requests, line.estimated]).map(String),
      ...(kind === 'abandoned'
        ? [line.abandoned_tokens]
        : [
            line.input_tokens,
            line.cache_read_tokens,
            line.cache_write_tokens,
            line.output_tokens,
            line.reasoning_tokens,
          ]
      ).map(String),
      String(line.cost_nanousd),
      formatDollars(line.cost_nanousd),
      ...(hasUpstreamCost ? [String(line.upstream_cost_nanousd)] : []),
      // Quoted: a line break in it must not look like a line of the statement.
      ...(isCorrection ? [line.reference ?? '', JSON.stringify(line.reason)] : []),
    ]),
  );
}

function showTotal({
  requests,
  cost_nanousd,
  log_requests,
  log_cost_nanousd,
  is_equal,
}: NonNullable<StatementReport['total']>): string {
  const all =
    `All accounts: ${requests} requests, ${cost_nanousd} nano-dollars (${formatDollars(cost_nanousd)} ` +
    'dollars).';
  if (is_equal) return `${all} The total computed from the log alone is the same.`;
  return (
    `${all} MISMATCH: the total computed from the log alone is ${log_requests} requests and ` +
    `${log_cost_nanousd} nano-dollars.`
  );
}

const COLUMNS = [
  'month',
  'account',
  'account_name',
  'kind',
  'key',
  'key_name',
  'model',
  'requests',
  'input_tokens',
  'cache_read_tokens',
  'output_tokens',
  'reasoning_tokens',
  'abandoned_tokens',
  'cost_nanousd',
  'first_position',
  'last_position',
  'cache_write_tokens',
  'estimated_requests',
  'estimated_cost_nanousd',
  'corrections',
  'reference',
  'reason',
];

/** Every line of every statement, so that the cost column adds up to the total. */
export function statementsCsv(report: StatementReport, hasUpstreamCost = false): string {
  const { month, first_position, last_position, statements } = report;
  const lines = statements.flatMap(({ account, name, keys, lines: own }) =>
    own.map((line) =>
      csvLine([
        month,
        account,
        name,
        line.kind,
        line.key,
        keys[line.key] ?? '',
        line.model,
        line.requests,
        line.input_tokens,
        line.cache_read_tokens,
        line.output_tokens,
        line.reasoning_tokens,
        line.abandoned_tokens,
        line.cost_nanousd,
        first_position,
        last_position,
        line.cache_write_tokens,
        line.estimated,
        line.estimated_cost_nanousd,
        line.corrections,
        line.reference ?? '',
        line.reason ?? '',
        ...(hasUpstreamCost ? [line.upstream_cost_nanousd] : []),
      ]),
    ),
  );
  return [csvLine([...COLUMNS, ...(hasUpstreamCost ? ['upstream_cost_nanousd'] : [])]), ...lines].join('');
}
