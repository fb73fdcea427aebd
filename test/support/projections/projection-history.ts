import type { Placed } from '#db/events/events.ts';
import { subjectsOf } from '#db/limits/subjects.ts';
import type { Row, Rows } from './projection-fold.ts';

/** What the table of usage by hour and subject is to hold, event by event: the judge of its statement. */
export function foldHistory(log: readonly Placed[]): Rows {
  const rows: Rows = new Map();
  for (const { event, at } of log) {
    const [tokens, cost] = usageOf(event);
    if (tokens === 0 && cost === 0) continue;
    const hour = new Date(at.getTime() - (at.getTime() % 3_600_000));
    for (const { subject, account } of historySubjects(event as UsageEvent)) {
      const key = JSON.stringify([subject, hour]);
      const row: Row = rows.get(key) ?? { subject, hour, account, tokens: 0, cost_nanousd: 0 };
      row['tokens'] = (row['tokens'] as number) + tokens;
      row['cost_nanousd'] = (row['cost_nanousd'] as number) + cost;
      rows.set(key, row);
    }
  }
  return rows;
}

type UsageEvent = Extract<
  Placed['event'],
  { type: 'request.settled' | 'request.abandoned' | 'usage.adjusted' }
>;

function usageOf(event: Placed['event']): [tokens: number, cost: number] {
  switch (event.type) {
    case 'request.settled':
      return [event.input_tokens + event.output_tokens, event.cost_nanousd ?? 0];
    case 'request.abandoned':
      return [event.hold_tokens, event.hold_cost_nanousd ?? 0];
    case 'usage.adjusted': {
      const { input_tokens = 0, output_tokens = 0, hold_tokens = 0, cost_nanousd = 0 } = event;
      return [input_tokens + output_tokens + hold_tokens, cost_nanousd];
    }
    default:
      return [0, 0];
  }
}

function historySubjects(event: UsageEvent): { subject: string; account: string }[] {
  const { account, end_user, model } = event;
  const kinds = (holder: string): (null | 'end_user')[] =>
    holder === `account/${account}` || holder === `key/${event.key}` ? [null, 'end_user'] : [null];
  const charged = subjectsOf({ ...event, end_user }, kinds).map((each) => ({
    subject: each.name,
    account: each.account,
  }));
  return [...charged, { subject: `model/${account}/${model}`, account }];
}
