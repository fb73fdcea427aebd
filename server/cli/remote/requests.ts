import type { Command } from '#db/command-line/command.ts';
import { readFilterOptions, withFilterOptions } from '#db/command-line/call-filter.ts';
import { print } from '#db/command-line/print.ts';
import { showTable } from '#db/command-line/table.ts';
import { formatDollars } from '#db/money.ts';
import { StoreUnavailable } from '#db/postgres/connect.ts';
import { requireServer, withServer } from '#server/cli/remote/choose-server.ts';
import type { ManagementApi } from '#server/cli/remote/management-api.ts';
import {
  PAGE_LIMIT_MAX,
  type RequestDetail,
  type RequestPage,
  type RequestRow,
} from '#server/contract/requests.ts';
import { DecisionError } from '#server/decide/decision.ts';

/** How often `requests tail` looks for requests that have ended. */
const TAIL_EVERY_MS = 1_000;

type Options = { account?: string };
type ListOptions = Options & { limit: string; from?: string; to?: string };

/** `daybook requests …`: at a server, whose projections answer. */
export function requestCommands(program: Command): void {
  const requests = program.command('requests').description('requests at a server, and what became of them');

  const list = withServer(requests.command('list'))
    .description('list requests, newest first')
    .option('--limit <count>', `at most this many, up to ${PAGE_LIMIT_MAX}`, '20')
    .option('--from <time>', 'accepted at this time or later; default: a day ago')
    .option('--to <time>', 'accepted before this time');
  withAccount(list).action(async (options: ListOptions, command: Command) => {
    const api = requireServer(command);
    const { limit, from, to } = options;
    const page = await readPage(api, options, { limit, from, to });
    print(command, page.data, (rows) =>
      rows.length === 0 ? 'No matching requests.' : showTable(HEADING, rows.map(cellsOf)),
    );
  });

  const tail = withServer(requests.command('tail'))
    .description('print requests as they end, until Ctrl-C; one that ends after 200 newer ones is not shown')
    .option('-n, --lines <count>', 'number of ended requests to begin with', '10')
    .option('--no-follow', 'print these and exit');
  withAccount(tail).action(
    async (options: Options & { lines: string; follow: boolean }, command: Command) => {
      const api = requireServer(command);
      const lines = Number(options.lines);
      if (!Number.isInteger(lines) || lines < 0 || lines > PAGE_LIMIT_MAX)
        throw new DecisionError('invalid', `--lines must be 0 to ${PAGE_LIMIT_MAX}.`);
      await follow(command, api, options, lines);
    },
  );

  withServer(requests.command('show').argument('<id>', "the request's id"))
    .description('print a request with its events, limits and corrections')
    .action(async (id: string, _options: unknown, command: Command) => {
      const detail = await requireServer(command).get<RequestDetail>(`requests/${encodeURIComponent(id)}`);
      print(command, detail, showDetail);
    });
}

function withAccount(command: Command): Command {
  command.option('--account <name>', 'only requests of this account');
  return withFilterOptions(command, 'requests with');
}

async function readPage(
  api: ManagementApi,
  options: Options,
  more: Record<string, string | number | undefined>,
): Promise<RequestPage> {
  const account = options.account === undefined ? undefined : (await api.account(options.account)).id;
  return api.get('requests', { ...readFilterOptions(options), ...more, account });
}

/** Prints ended requests in the order of their ends. A server that is away is asked again. */
async function follow(
  command: Command,
  api: ManagementApi,
  options: Options & { follow: boolean },
  lines: number,
): Promise<void> {
  const { out, err } = command.surroundings;
  const { json } = command.optsWithGlobals<{ json?: boolean }>();
  const stop = new AbortController();
  const end = (): void => stop.abort();
  process.once('SIGINT', end).once('SIGTERM', end);
  /** The position of the newest printed end; null before the first page. */
  let after: number | null = null;
  try {
    for (;;) {
      const page = await readPage(api, options, { limit: PAGE_LIMIT_MAX }).catch((error: unknown) => {
        if (after === null || !(error instanceof StoreUnavailable)) throw error;
        err(`daybook: ${error.message} Retrying.\n`);
        return null;
      });
      if (page) {
        const ended = endedAfter(page.data, after ?? -1);
        const shown: readonly RequestRow[] = after === null ? ended.slice(ended.length - lines) : ended;
        for (const row of shown) out(`${json === true ? JSON.stringify(row) : lineOf(row)}\n`);
        after = ended.at(-1)?.end_position ?? after ?? page.position;
      }
      if (!options.follow || !(await pause(stop.signal))) return;
    }
  } finally {
    process.off('SIGINT', end).off('SIGTERM', end);
  }
}

/** Those whose end is after a position, in the order of their ends. Pure. */
export const endedAfter = (rows: readonly RequestRow[], position: number): RequestRow[] =>
  rows
    .filter(({ end_position: end }) => end !== null && end > position)
    .toSorted((one, other) => (one.end_position ?? 0) - (other.end_position ?? 0));

/** @returns whether the user wants more. */
const pause = (signal: AbortSignal): Promise<boolean> =>
  new Promise((resolve) => {
    if (signal.aborted) return resolve(false);
    const done = (isMore: boolean): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', stopped);
      resolve(isMore);
    };
    const stopped = (): void => done(false);
    const timer = setTimeout(() => done(true), TAIL_EVERY_MS);
    signal.addEventListener('abort', stopped);
  });

const HEADING = [
  'ACCEPTED',
  'REQUEST',
  'ACCOUNT',
  'MODEL',
  'OUTCOME',
  'STATUS',
  'INPUT',
  'OUTPUT',
  'COST',
  'MS',
];

const cellsOf = (row: RequestRow): string[] => [
  row.accepted_at,
  row.request,
  row.account,
  row.model ?? '-',
  row.outcome,
  String(row.status ?? '-'),
  String(row.input_tokens ?? '-'),
  String(row.output_tokens ?? '-'),
  row.cost_nanousd === null ? '-' : `$${formatDollars(row.cost_nanousd)}`,
  String(row.duration_ms ?? '-'),
];

const lineOf = (row: RequestRow): string => cellsOf(row).join('  ');

function showDetail(detail: RequestDetail): string {
  const { object: _object, events, quotas, corrections, ...fields } = detail;
  const rows = Object.entries(fields).filter(([, value]) => value !== null);
  const text = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));
  return [
    showTable(
      ['FIELD', 'VALUE'],
      rows.map(([name, value]) => [name, text(value)]),
    ),
    '',
    showTable(
      ['POSITION', 'AT', 'EVENT'],
      events.map(({ position, at, type }) => [String(position), at, type]),
    ),
    ...(quotas.length === 0
      ? []
      : [
          '',
          showTable(
            ['SCOPE', 'METER', 'WINDOW', 'LIMIT', 'USED'],
            quotas.map((each) => [
              each.scope,
              each.meter,
              each.window,
              String(each.limit),
              String(each.used),
            ]),
          ),
        ]),
    ...corrections.map(
      ({ position, reference, reason }) => `corrected at ${position}: ${reference}, ${reason}`,
    ),
  ].join('\n');
}
