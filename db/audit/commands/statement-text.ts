import { KINDS, type Line, type Statement } from '#db/audit/replay/statement.ts';
import { showTable } from '#db/command-line/table.ts';
import { csvLine } from '#db/csv.ts';
import { formatDollars } from '#db/money.ts';

/** Statements for people and for spreadsheets. Pure. */

export type NamedStatement = Statement & { name: string; keys: Record<string, string> };

export type ShownStatements = {
  month: string;
  /** The month, from its first moment up to the next one's. */
  from: string;
  until: string;
  /** False while the month goes on in the log that was read: there may be more to come. */
  is_over: boolean;
  /** Whoever reads these positions of the log again finds the same; null where the month has no event. */
  first_position: number | null;
  last_position: number | null;
  statements: NamedStatement[];
  /**
   * Of all accounts: the sum of their statements, and that of the log reckoned apart from them; null where
   * one account was asked for.
   */
  total: {
    requests: number;
    cost_microusd: number;
    log_requests: number;
    log_cost_microusd: number;
    is_equal: boolean;
  } | null;
};

const TITLES: Record<Line['kind'], string> = {
  priced: 'Calls',
  abandoned: 'Abandoned calls: their instance died, nobody knows what they used, and their hold is charged',
  unpriced: 'Calls of models without a price: they cost nothing',
};

/** One statement after the other, and what they come to. */
export function showStatements(shown: ShownStatements): string {
  const { first_position, last_position, total } = shown;
  return [
    ...shown.statements.map((statement) => showStatement(statement, shown)),
    ...(shown.statements.length === 0 ? [`No account used anything in ${shown.month}.`] : []),
    ...(total === null ? [] : [showTotal(total)]),
    first_position === null
      ? 'The log has no event of this month.'
      : `Made of the positions ${first_position} to ${last_position} of the log: a call belongs to the month in which it ended.`,
    ...(shown.is_over ? [] : ['The log ends within this month: there may be more to come.']),
  ].join('\n');
}

function showStatement(
  { account, name, keys, lines, refused, requests, cost_microusd }: NamedStatement,
  { from, until }: ShownStatements,
): string {
  const parts = KINDS.map((kind) => ({ kind, own: lines.filter((line) => line.kind === kind) })).filter(
    ({ own }) => own.length > 0,
  );
  return [
    `Statement of ${name} (${account}), from ${from} up to ${until} (UTC)`,
    ...parts.map(({ kind, own }) => `\n${TITLES[kind]}\n${showLines(kind, own, keys)}`),
    '',
    `${requests} calls${refused > 0 ? ` (and ${refused} refused)` : ''}: ${cost_microusd} micro-dollars, ${formatDollars(cost_microusd)} dollars`,
    '',
  ].join('\n');
}

function showLines(kind: Line['kind'], lines: readonly Line[], keys: Record<string, string>): string {
  const tokens = kind === 'abandoned' ? ['HELD TOKENS'] : ['INPUT', 'CACHED', 'OUTPUT', 'REASONING'];
  return showTable(
    ['KEY', 'NAME', 'MODEL', 'CALLS', ...tokens, 'MICRO-DOLLARS', 'DOLLARS'],
    lines.map((line) => [
      line.key,
      keys[line.key] ?? '',
      line.model,
      String(line.requests),
      ...(kind === 'abandoned'
        ? [line.abandoned_tokens]
        : [line.input_tokens, line.cached_tokens, line.output_tokens, line.reasoning_tokens]
      ).map(String),
      String(line.cost_microusd),
      formatDollars(line.cost_microusd),
    ]),
  );
}

function showTotal({
  requests,
  cost_microusd,
  log_requests,
  log_cost_microusd,
  is_equal,
}: NonNullable<ShownStatements['total']>): string {
  const all = `All accounts: ${requests} calls, ${cost_microusd} micro-dollars (${formatDollars(cost_microusd)} dollars).`;
  if (is_equal) return `${all} The log, summed apart from the statements, comes to the same.`;
  return `${all} BUT the log, summed apart from the statements, comes to ${log_requests} calls and ${log_cost_microusd} micro-dollars.`;
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
  'cached_tokens',
  'output_tokens',
  'reasoning_tokens',
  'abandoned_tokens',
  'cost_microusd',
  'first_position',
  'last_position',
];

/** Every line of every statement, so that the column of the cost adds up to the total. */
export function statementsCsv({ month, first_position, last_position, statements }: ShownStatements): string {
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
        line.cached_tokens,
        line.output_tokens,
        line.reasoning_tokens,
        line.abandoned_tokens,
        line.cost_microusd,
        first_position,
        last_position,
      ]),
    ),
  );
  return [csvLine(COLUMNS), ...lines].join('');
}
