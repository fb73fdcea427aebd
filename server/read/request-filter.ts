import { type Expression, expressionBuilder, sql, type SqlBool } from 'kysely';
import { endReasonCodes } from '#db/projections/outcomes.ts';
import type { Tables } from '#db/schema/tables.ts';
import type { RequestFilter } from '#server/contract/requests.ts';
import type { Scope } from '#server/read/scope.ts';

/**
 * The filter of lists, exports and the live feed as SQL conditions; `matches` in contract/filter.ts is the
 * same filter for rows in memory. A test holds the two together.
 */

const eb = expressionBuilder<Tables, 'projection.request'>();

export type Condition = Expression<SqlBool>;

/** Conditions on the columns that indexes lead with: the scope of the reader, narrowed by the filter. */
export function subjectConditions(scope: Scope, filter: Pick<RequestFilter, 'account' | 'key'>): Condition[] {
  return (['account', 'key'] as const).flatMap((column) => {
    const ids = [scope[column] ?? undefined, filter[column]].filter((id) => id !== undefined);
    return [...new Set(ids)].map((id) => eb(column, '=', id));
  });
}

/** The other conditions of the filter, on rows of `projection.request`. */
export function filterConditions({ model, outcome, status }: RequestFilter): Condition[] {
  return [
    ...(model === undefined ? [] : [eb('model', '=', model)]),
    ...(status === undefined ? [] : [eb('status', '=', status)]),
    ...(outcome === undefined ? [] : [outcomeCondition(outcome)]),
  ];
}

function outcomeCondition(outcome: NonNullable<RequestFilter['outcome']>): Condition {
  if (outcome === 'running') return eb('ended_at', 'is', null);
  if (outcome === 'refused') return eb('error_code', 'is not', null);
  return sql<SqlBool>`end_reason = any(${endReasonCodes(outcome)}::smallint[])`;
}
