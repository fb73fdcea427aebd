import { type Expression, expressionBuilder, sql, type SqlBool } from 'kysely';
import { type CallFilter, statusRange } from '#db/fold/call-filter.ts';
import { ROUTE_CODES } from '#db/limits/limits.ts';
import { endReasonCodes } from '#db/projections/outcomes.ts';
import type { Tables } from '#db/schema/tables.ts';
import type { Scope } from '#server/read/scope.ts';

/**
 * The filter of lists, exports and the live feed as SQL conditions; `matchesCall` in
 * db/fold/call-filter.ts is the same filter for calls in memory. A test holds the two together.
 */

const eb = expressionBuilder<Tables, 'projection.request'>();

export type Condition = Expression<SqlBool>;

/** Conditions on the columns that indexes lead with: the scope of the reader, narrowed by the filter. */
export function subjectConditions(scope: Scope, filter: Pick<CallFilter, 'account' | 'key'>): Condition[] {
  return (['account', 'key'] as const).flatMap((column) => {
    const ids = [scope[column] ?? undefined, filter[column]].filter((id) => id !== undefined);
    return [...new Set(ids)].map((id) => eb(column, '=', id));
  });
}

/** The other conditions of the filter, on rows of `projection.request`. */
export function filterConditions(filter: CallFilter): Condition[] {
  const { route, tag, outcome, status } = filter;
  return [
    ...EQUAL.flatMap((column) => {
      const value = filter[column];
      return value === undefined ? [] : [eb(column, '=', value)];
    }),
    ...(route === undefined ? [] : [eb('route', '=', ROUTE_CODES[route])]),
    ...(tag === undefined ? [] : [sql<SqlBool>`${tag} = any(string_to_array(tags, ' '))`]),
    ...(status === undefined ? [] : [statusCondition(status)]),
    ...(outcome === undefined ? [] : [outcomeCondition(outcome)]),
  ];
}

const EQUAL = ['model', 'upstream', 'end_user', 'session', 'error_code'] as const;

function statusCondition(status: NonNullable<CallFilter['status']>): Condition {
  if (typeof status === 'number') return eb('status', '=', status);
  const [first, last] = statusRange(status);
  return eb.between('status', first, last);
}

function outcomeCondition(outcome: NonNullable<CallFilter['outcome']>): Condition {
  if (outcome === 'running') return eb('ended_at', 'is', null);
  if (outcome === 'refused') return eb('error_code', 'is not', null);
  return sql<SqlBool>`end_reason = any(${endReasonCodes(outcome)}::smallint[])`;
}
