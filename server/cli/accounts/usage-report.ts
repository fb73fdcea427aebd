import { Option } from 'commander';
import type { Command } from '#db/command-line/command.ts';
import { readFilterOptions, withFilterOptions } from '#db/command-line/call-filter.ts';
import { print } from '#db/command-line/print.ts';
import { showTable } from '#db/command-line/table.ts';
import { FILTER_FIELDS } from '#db/fold/call-filter.ts';
import { formatDollars } from '#db/money.ts';
import { requireServer, withServer } from '#server/cli/remote/choose-server.ts';
import { Bucket, type UsageFigures, type UsageReport } from '#server/contract/usage.ts';

type Options = { from?: string; to?: string; by?: string; bucket?: Bucket; account?: string };

/** `daybook usage report` */
export function reportCommand(usage: Command): void {
  const report = withServer(usage.command('report'))
    .description('the usage and cost of a period, at a server, by account, key, model and others')
    .option('--from <time>', 'the beginning, such as 2027-01-01; default: today in UTC')
    .option('--to <time>', 'the end, which is not part of the period; default: now')
    .option('--by <fields>', `groups, separated by commas, of ${FILTER_FIELDS.join(', ')}`)
    .addOption(new Option('--bucket <length>', 'a row for each minute, hour or day').choices(Bucket.options))
    .option('--account <name>', 'only requests of this account');
  withFilterOptions(report, 'requests with').action(async (options: Options, command: Command) => {
    const { from, to, by, bucket, account } = options;
    const filter = readFilterOptions(options);
    const api = requireServer(command);
    const result = await api.get<UsageReport>('usage', {
      ...filter,
      from,
      to,
      bucket,
      group_by: by,
      account: account === undefined ? undefined : (await api.account(account)).id,
    });
    print(command, result, showReport);
  });
}

const HEADING = ['REQUESTS', 'ERRORS', 'INPUT', 'OUTPUT', 'COST'];

function showReport({ from, to, group_by, bucket, totals, rows = [], rows_omitted }: UsageReport): string {
  const names = [...(bucket === null ? [] : ['from' as const]), ...group_by];
  const table = showTable(
    [...names.map((name) => name.toUpperCase()), ...HEADING],
    [
      ...rows.map((row) => [...names.map((name) => row[name] ?? '-'), ...figures(row)]),
      [...names.map((_, index) => (index === 0 ? 'total' : '')), ...figures(totals)],
    ],
  );
  const omitted = rows_omitted ? `\n${rows_omitted} rows more are in the total.` : '';
  return `${from} to ${to}\n${table}${omitted}`;
}

const figures = (sum: UsageFigures): string[] => [
  String(sum.requests),
  String(sum.requests - sum.completed),
  String(sum.input_tokens),
  String(sum.output_tokens),
  `$${formatDollars(BigInt(sum.cost_nanousd))}`,
];
