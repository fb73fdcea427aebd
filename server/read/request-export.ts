import type { Response } from 'express';
import { EXPORT_ROWS_MAX, EXPORT_STEP_ROWS, EXPORT_STEPS_MAX } from '#server/read/bounds.ts';
import { isEstimated } from '#db/fold/estimated.ts';
import type { RequestRow } from '#server/contract/requests.ts';
import { type Cell, csvLine } from '#db/csv.ts';
import { readCursor } from '#server/read/cursor.ts';
import { ExportCutError, replyWithLines } from '#server/read/export-reply.ts';
import { seesUpstreamCost } from '#server/read/operator-fields.ts';
import type { ReadStore } from '#server/read/store.ts';
import { listRequests, type PageResult, type PageQuery, REQUESTS } from '#server/read/request-list.ts';
import { ApiError } from '#server/errors/api-error.ts';

const COLUMNS = [
  'request',
  'accepted_at',
  'ended_at',
  'account',
  'key',
  'model',
  'route',
  'upstream',
  'end_user',
  'session',
  'tags',
  'outcome',
  'end_reason',
  'error_code',
  'rejected_count',
  'status',
  'sse',
  'input_tokens',
  'cache_read_tokens',
  'cache_write_tokens',
  'output_tokens',
  'reasoning_tokens',
  'usage_source',
  'estimated',
  'cost_nanousd',
  'first_byte_ms',
  'duration_ms',
  'attempt_count',
  'retry_count',
  'observed',
  'hold_tokens',
  'hold_cost_nanousd',
  'position',
  'end_position',
  'corrections',
  'corrected_cost_nanousd',
  'corrected_input_tokens',
  'corrected_output_tokens',
] as const;
/** For those who may see it, beside the charge. */
const OPERATOR_COLUMNS = [...COLUMNS, 'upstream_cost_nanousd', 'corrected_upstream_cost_nanousd'] as const;

/** The columns of figures after corrections; empty for requests without corrections. */
const CORRECTED: Partial<Record<Column, keyof NonNullable<RequestRow['corrected']>>> = {
  corrected_cost_nanousd: 'cost_nanousd',
  corrected_input_tokens: 'input_tokens',
  corrected_output_tokens: 'output_tokens',
  corrected_upstream_cost_nanousd: 'upstream_cost_nanousd',
};
type Column = (typeof OPERATOR_COLUMNS)[number];
type Plain = Exclude<Extract<Column, keyof RequestRow>, 'tags'>;

/** The cells of a row. The tags are one space apart. */
function cellsOf(row: RequestRow, columns: readonly Column[]): Cell[] {
  return columns.map((name) => {
    if (name === 'tags') return row.tags.join(' ');
    if (name === 'estimated') return isEstimated(row.usage_source);
    if (name === 'corrections') return row.corrected?.corrections ?? 0;
    const figure = CORRECTED[name];
    return figure === undefined ? row[name as Plain] : (row.corrected?.[figure] ?? null);
  });
}

/**
 * The same list as CSV, up to the limit of an export. Each step is read only after the client took the
 * previous one, and holds no connection in between. Trailers have the number of rows and the cursor of the
 * rest.
 * @returns an error if the export can't start; a later failure cuts the connection.
 */
export async function exportRequests(
  reads: ReadStore,
  wanted: PageQuery,
  response: Response,
): Promise<ApiError | null> {
  const columns = seesUpstreamCost(wanted.scope) ? OPERATOR_COLUMNS : COLUMNS;
  const read = (after: PageQuery['after'], limit: number) =>
    reads.read(REQUESTS, (client) => listRequests(client, { ...wanted, after, limit }));
  const first = await read(wanted.after, EXPORT_STEP_ROWS);
  if (first instanceof ApiError) return first;

  async function* lines(): AsyncGenerator<string> {
    yield csvLine(columns);
    let found: PageResult = (first as Exclude<typeof first, ApiError>).found;
    let count = 0;
    for (let step = 1; ; step++) {
      count += found.rows.length;
      if (found.rows.length > 0) yield found.rows.map((row) => csvLine(cellsOf(row, columns))).join('');
      if (found.next === null || count >= EXPORT_ROWS_MAX || step >= EXPORT_STEPS_MAX) break;
      const next = await read(readCursor(found.next), Math.min(EXPORT_STEP_ROWS, EXPORT_ROWS_MAX - count));
      if (next instanceof ApiError) throw new ExportCutError(next);
      found = next.found;
    }
    response.addTrailers({ 'x-row-count': String(count), 'x-next-cursor': found.next ?? '' });
  }

  const headers = [
    'content-type',
    'text/csv; charset=utf-8; header=present',
    'content-disposition',
    'attachment; filename="requests.csv"',
    'trailer',
    'x-row-count, x-next-cursor',
    'x-row-limit',
    String(EXPORT_ROWS_MAX),
    'x-as-of',
    first.asOf.as_of ?? '',
    'x-position',
    String(first.asOf.position),
    'x-behind',
    String(first.asOf.behind),
  ];
  return replyWithLines(response, headers, lines());
}
