import { EVENT_CODES } from '#db/events/events.ts';
import { QUOTA_METERS } from '#db/limits/meters.ts';
import { AT } from '#db/log/columns.ts';
import type { Cells } from '#db/log/line.ts';
import { unitsOf } from '#db/projections/page/charges.ts';
import { addExactly } from '#db/projections/page/exact-sums.ts';
import type { PageEvent } from '#db/projections/page/page.ts';

/** The usage of a subject in an hour: what its requests ended with, and corrections. */
export type HistoryRow = {
  /** As `daybook.subjects_of` names accounts, keys and end users; models are `model/<account>/<model>`. */
  subject: string;
  account: string;
  /** The beginning of the hour, in microseconds since 1970. */
  us: number;
  tokens: number;
  cost: number;
};

const ENDS: ReadonlySet<number> = new Set([
  EVENT_CODES['request.settled'],
  EVENT_CODES['request.abandoned'],
  EVENT_CODES['usage.adjusted'],
]);
const HOUR_US = 3_600_000_000;
const TOKENS_AT = QUOTA_METERS.indexOf('tokens');
const COST_AT = QUOTA_METERS.indexOf('cost_nanousd');

/**
 * The usage of a page by hour and subject, as quotas count it, in the hour of each event. Pure.
 * @throws {TypeError} where a field is no integer. {RangeError} where a sum would not be exact.
 */
export function sumHistory(events: readonly PageEvent[]): HistoryRow[] {
  const rows = new Map<string, HistoryRow>();
  for (const event of events) {
    if (!ENDS.has(event.type)) continue;
    const units = unitsOf(event);
    const [tokens, cost] = [units[TOKENS_AT] as number, units[COST_AT] as number];
    if (tokens === 0 && cost === 0) continue;
    const us = event.atUs - (event.atUs % HOUR_US);
    for (const { subject, account } of subjectsOf(event.cells)) {
      const id = `${us},${subject}`;
      const row = rows.get(id);
      if (row === undefined) rows.set(id, { subject, account, us, tokens, cost });
      else {
        row.tokens = addExactly(row.tokens, tokens);
        row.cost = addExactly(row.cost, cost);
      }
    }
  }
  return [...rows.values()];
}

/** The subjects of a call whose usage is forecast, or compared with their own history. */
function* subjectsOf(cells: Cells): Generator<Pick<HistoryRow, 'subject' | 'account'>> {
  const account = cells[AT.account] ?? '';
  yield { subject: `account/${account}`, account };
  for (const parent of cells[AT.parents]?.split(' ') ?? [])
    yield { subject: `account/${parent}`, account: parent };
  yield { subject: `key/${cells[AT.key]}`, account };
  const endUser = cells[AT.end_user];
  if (endUser != null) {
    yield { subject: `end_user/${account}/${endUser}`, account };
    yield { subject: `end_user/${account}/${cells[AT.key]}/${endUser}`, account };
  }
  const model = cells[AT.model];
  if (model != null) yield { subject: `model/${account}/${model}`, account };
}
