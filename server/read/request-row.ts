import type { Selectable } from 'kysely';
import { END_REASON_OF, type EndReason, USAGE_SOURCE_OF } from '#db/events/endings.ts';
import { ROUTE_OF } from '#db/limits/limits.ts';
import { OUTCOME_OF } from '#db/projections/outcomes.ts';
import type { RequestTable } from '#db/schema/tables.ts';
import type { RequestRow } from '#server/contract/requests.ts';

/** Rows of `projection.request` in replies: codes by name, counts as numbers. Pure. */

/** The columns that {@link requestRow} reads. */
export const REQUEST_COLUMNS = [
  'request',
  'position',
  'end_position',
  'accepted_at',
  'ended_at',
  'hold_tokens',
  'hold_cost_nanousd',
  'cost_nanousd',
  'upstream_cost_nanousd',
  'input_tokens',
  'cache_read_tokens',
  'cache_write_tokens',
  'output_tokens',
  'reasoning_tokens',
  'first_byte_ms',
  'duration_ms',
  'rejected_count',
  'status',
  'end_reason',
  'usage_source',
  'attempt_count',
  'retry_count',
  'observed',
  'route',
  'sse',
  'account',
  'key',
  'model',
  'upstream',
  'error_code',
  'end_user',
  'session',
  'tags',
] as const satisfies readonly (keyof RequestTable)[];

export type RequestRecord = Pick<Selectable<RequestTable>, (typeof REQUEST_COLUMNS)[number]>;

/**
 * A request as a row of a list, without its corrections.
 * @param hasUpstreamCost whether the reader may see the operator's cost.
 */
export function requestRow(record: RequestRecord, hasUpstreamCost: boolean): RequestRow {
  const endReason = END_REASON_OF.get(record.end_reason ?? NaN) ?? null;
  return {
    request: record.request,
    accepted_at: record.accepted_at.toISOString(),
    ended_at: record.ended_at?.toISOString() ?? null,
    account: record.account,
    key: record.key,
    model: record.model,
    route: ROUTE_OF.get(record.route ?? NaN) ?? null,
    upstream: record.upstream,
    end_user: record.end_user,
    session: record.session,
    tags: record.tags?.split(' ') ?? [],
    outcome: outcomeOf(record, endReason),
    end_reason: endReason,
    error_code: record.error_code,
    rejected_count: record.rejected_count,
    status: record.status,
    sse: record.sse,
    input_tokens: record.input_tokens,
    cache_read_tokens: record.cache_read_tokens,
    cache_write_tokens: record.cache_write_tokens,
    output_tokens: record.output_tokens,
    reasoning_tokens: record.reasoning_tokens,
    usage_source: USAGE_SOURCE_OF.get(record.usage_source ?? NaN) ?? null,
    cost_nanousd: numberOf(record.cost_nanousd),
    ...(hasUpstreamCost
      ? { upstream_cost_nanousd: numberOf(record.upstream_cost_nanousd ?? record.cost_nanousd) }
      : {}),
    first_byte_ms: record.first_byte_ms,
    duration_ms: record.duration_ms,
    attempt_count: record.attempt_count,
    retry_count: record.retry_count,
    observed: record.observed,
    hold_tokens: numberOf(record.hold_tokens),
    hold_cost_nanousd: numberOf(record.hold_cost_nanousd),
    position: Number(record.position),
    end_position: numberOf(record.end_position),
    corrected: null,
  };
}

function outcomeOf({ error_code }: RequestRecord, endReason: EndReason | null): RequestRow['outcome'] {
  if (error_code !== null) return 'refused';
  return endReason === null ? 'running' : OUTCOME_OF[endReason];
}

export function numberOf(text: string | null): number | null {
  return text === null ? null : Number(text);
}
