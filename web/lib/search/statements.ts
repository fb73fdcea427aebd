import type { StatementGroup } from '#db/statement/document.ts';
import { textsIn } from './params.ts';

/** URL search parameters of the statements page. Pure. */

// A copy: the schema of events is too large for the first load.
const GROUPS = ['day', 'key', 'end_user'] as const satisfies readonly StatementGroup[];

export type StatementSearch = {
  account?: string;
  /** A UTC month such as `2027-01`; `custom`: `from` and `to`. */
  period?: string;
  /** UTC days, both included. */
  from?: string;
  to?: string;
  /** A pseudonym. */
  end_user?: string;
  group?: StatementGroup;
};

export function readStatementSearch(search: Record<string, unknown>): StatementSearch {
  const found: StatementSearch = textsIn(search, ['account', 'period', 'from', 'to', 'end_user'], 40);
  const group = GROUPS.find((each) => each === search['group']);
  return group === undefined ? found : { ...found, group };
}
