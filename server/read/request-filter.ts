import { endReasonCodes } from '#db/projections/outcomes.ts';
import type { RequestFilter } from '#server/contract/requests.ts';
import type { Scope } from '#server/read/scope.ts';

/**
 * The one predicate behind lists, exports and the live feed, for Postgres; `matches` in filter.ts is
 * the same for rows in hand. A test holds the two together.
 */

/** Parameters of a statement, numbered in the order in which they are asked for. */
export class Values {
  readonly list: unknown[] = [];

  /** Adds a value. @returns its place in the statement: `$1`, `$2`, … */
  add(value: unknown): string {
    this.list.push(value);
    return `$${this.list.length}`;
  }
}

/**
 * Whose rows are meant, in the columns that indexes lead with: what somebody may see, narrowed by
 * what the filter names.
 */
export function subjectConditions(
  scope: Scope,
  filter: Pick<RequestFilter, 'account' | 'key'>,
  values: Values,
): string[] {
  return (['account', 'key'] as const).flatMap((column) => {
    const named = new Set([scope[column] ?? undefined, filter[column]].filter((each) => each !== undefined));
    return [...named].map((each) => `${column} = ${values.add(each)}`);
  });
}

/** What the rest of the filter asks of rows of `projection.request`. */
export function filterConditions({ model, outcome, status }: RequestFilter, values: Values): string[] {
  return [
    ...(model === undefined ? [] : [`model = ${values.add(model)}`]),
    ...(status === undefined ? [] : [`status = ${values.add(status)}`]),
    ...(outcome === undefined ? [] : [outcomeCondition(outcome, values)]),
  ];
}

function outcomeCondition(outcome: NonNullable<RequestFilter['outcome']>, values: Values): string {
  if (outcome === 'running') return 'ended_at is null';
  if (outcome === 'refused') return 'refusal is not null';
  return `end_reason = any(${values.add(endReasonCodes(outcome))}::smallint[])`;
}
