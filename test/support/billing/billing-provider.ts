import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { costReport, messagesUsage } from './anthropic-reports.ts';
import { DAY_MS, dayStart, type LedgerEntry } from './ledger.ts';
import { costs, usage } from './openai-reports.ts';
import { activity } from './openrouter-reports.ts';

/**
 * A provider's billing APIs over real connections, with the providers' wire shapes, from a ledger that the
 * test gives. It serves OpenAI's `/v1/organization/costs` and `/v1/organization/usage/…`, Anthropic's
 * `/v1/organizations/usage_report/messages` and `/v1/organizations/cost_report`, and OpenRouter's
 * `/api/v1/activity`, grouped as the query asks and in pages.
 *
 *     await using provider = await startBillingProvider({ ledger: [{ requestId: 'gen-1', at, … }] });
 *     // An upstream's base URL: `${provider.url}/v1`, or `${provider.url}/api/v1` for OpenRouter; its
 *     // network is private, and its billing credential `provider.adminKey`.
 *
 * The ledger may change between requests. To plant a difference, give it other entries than the calls that
 * were relayed, or days that begin at another hour (`dayOffsetMs`).
 */
export type BillingProvider = AsyncDisposable & {
  url: string;
  adminKey: string;
  ledger: LedgerEntry[];
  /** The next replies, each once, in place of a report. */
  faults: Fault[];
  /** The paths with queries that were requested, and by which key. */
  asked: { path: string; key: string }[];
};

export type Fault =
  | { status: number; retryAfter?: string }
  /** The connection is reset. */
  | 'reset'
  /** A reply of this text with status 200. */
  | { text: string };

export type BillingOptions = {
  ledger: readonly LedgerEntry[];
  adminKey?: string;
  /** The most time buckets in a page, whatever the query's limit. */
  bucketsPerPage?: number;
  /** How long after midnight UTC its days begin. */
  dayOffsetMs?: number;
};

/** What the reports are made from, and how they are paged. */
export type Books = Omit<BillingProvider, 'url' | typeof Symbol.asyncDispose> &
  Required<Pick<BillingOptions, 'bucketsPerPage' | 'dayOffsetMs'>>;

export async function startBillingProvider({
  ledger,
  adminKey = 'sk-admin-canary-3b1f6a0d9c42',
  bucketsPerPage = Infinity,
  dayOffsetMs = 0,
}: BillingOptions): Promise<BillingProvider> {
  const provider: Books = {
    adminKey,
    ledger: [...ledger],
    faults: [],
    asked: [],
    bucketsPerPage,
    dayOffsetMs,
  };
  const server = createServer((request, response) => serveReport(request, response, provider));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return Object.assign(provider, {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  });
}

/** Replies to a request of a billing API. */
export function serveReport(request: IncomingMessage, response: ServerResponse, books: Books): void {
  const url = new URL(request.url ?? '/', 'http://provider');
  const key = keyOf(request);
  books.asked.push({ path: `${url.pathname}${url.search}`, key });
  const fault = books.faults.shift();
  if (fault !== undefined) return fail(response, fault);
  // Like the providers', its message quotes a part of the key.
  if (key !== books.adminKey)
    return reply(response, 401, { error: { message: `Incorrect API key provided: ${key}` } });
  const page = pageOf(url, books.ledger, books);
  return page === null
    ? reply(response, 404, { error: { message: 'Not found' } })
    : reply(response, 200, page);
}

const keyOf = ({ headers }: IncomingMessage): string =>
  String(headers['x-api-key'] ?? headers.authorization?.replace(/^Bearer /, '') ?? '');

function reply(
  response: ServerResponse,
  status: number,
  body: object,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify(body));
}

function fail(response: ServerResponse, fault: Fault): void {
  if (fault === 'reset') response.socket?.resetAndDestroy();
  else if ('text' in fault) response.writeHead(200, { 'content-type': 'application/json' }).end(fault.text);
  else
    reply(
      response,
      fault.status,
      { error: { message: 'Scripted fault' } },
      fault.retryAfter === undefined ? {} : { 'retry-after': fault.retryAfter },
    );
}

type Paging = Required<Pick<BillingOptions, 'bucketsPerPage' | 'dayOffsetMs'>>;

function pageOf(url: URL, ledger: readonly LedgerEntry[], paging: Paging): object | null {
  const { pathname, searchParams: query } = url;
  const [, report] = /^\/v1\/organization\/usage\/(\w+)$/.exec(pathname) ?? [];
  if (report !== undefined) return openAiPage(query, ledger, usage(report), 31, paging);
  switch (pathname) {
    case '/v1/organization/costs':
      return openAiPage(query, ledger, costs, 180, paging);
    case '/v1/organizations/usage_report/messages':
      return anthropicPage(query, ledger, messagesUsage, paging);
    case '/v1/organizations/cost_report':
      return anthropicPage(query, ledger, costReport, paging);
    case '/v1/activity':
    case '/api/v1/activity': {
      const items = activity(ledger, paging.dayOffsetMs) as { date: string }[];
      const date = query.get('date');
      return { data: date === null ? items : items.filter((item) => item.date === date) };
    }
    default:
      return null;
  }
}

type Results = (entries: readonly LedgerEntry[], query: URLSearchParams) => unknown[];

function openAiPage(
  query: URLSearchParams,
  ledger: readonly LedgerEntry[],
  results: Results,
  limitMax: number,
  paging: Paging,
): object {
  const [from, to] = [Number(query.get('start_time')) * 1_000, Number(query.get('end_time')) * 1_000];
  const page = bucketsOf(query, ledger, { from, to, limitMax }, paging);
  return {
    object: 'page',
    data: page.buckets.map(({ start, entries }) => ({
      object: 'bucket',
      start_time: start / 1_000,
      end_time: (start + DAY_MS) / 1_000,
      results: results(entries, query),
    })),
    has_more: page.next !== null,
    next_page: page.next,
  };
}

function anthropicPage(
  query: URLSearchParams,
  ledger: readonly LedgerEntry[],
  results: Results,
  paging: Paging,
): object {
  const [from, to] = [Date.parse(query.get('starting_at') ?? ''), Date.parse(query.get('ending_at') ?? '')];
  const page = bucketsOf(query, ledger, { from, to, limitMax: 31 }, paging);
  const text = (ms: number): string => new Date(ms).toISOString().replace('.000Z', 'Z');
  return {
    data: page.buckets.map(({ start, entries }) => ({
      starting_at: text(start),
      ending_at: text(start + DAY_MS),
      results: results(entries, query),
    })),
    has_more: page.next !== null,
    next_page: page.next,
  };
}

/** The days of a page, empty ones too, and the cursor of the next page. */
function bucketsOf(
  query: URLSearchParams,
  ledger: readonly LedgerEntry[],
  { from, to, limitMax }: { from: number; to: number; limitMax: number },
  { bucketsPerPage, dayOffsetMs }: Paging,
): { buckets: { start: number; entries: LedgerEntry[] }[]; next: string | null } {
  const starts: number[] = [];
  for (let start = dayStart(from, dayOffsetMs); start < to; start += DAY_MS) starts.push(start);
  const first = Number(atob((query.get('page') ?? '').replace(/^page_/, '')));
  const limit = Math.min(Number(query.get('limit') ?? 7), limitMax, bucketsPerPage);
  const shown = starts.slice(first, first + limit);
  const isLast = first + limit >= starts.length;
  return {
    buckets: shown.map((start) => ({
      start,
      entries: ledger.filter(({ at }) => dayStart(at, dayOffsetMs) === start),
    })),
    next: isLast ? null : `page_${btoa(String(first + limit))}`,
  };
}
