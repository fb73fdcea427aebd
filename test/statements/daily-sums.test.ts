import type { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { EventOf } from '#db/events/events.ts';
import { projectPage, startEpoch } from '#db/projections/project.ts';
import { PROJECTIONS } from '#db/projections/projections.ts';
import type { Statement, StatementGroup } from '#db/statement/document.ts';
import { readBilled } from '#db/statement/issued.ts';
import { readStatement, type StatementRequest } from '#db/statement/read.ts';
import { BillingControl } from '#server/control/billing-control.ts';
import { withControl } from '#server/control/control.ts';
import { randomFrom } from '../chaos/random.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import {
  accepted,
  connectAs,
  openLivingWriter,
  registered,
  settled,
  type Writer,
} from '../support/log/log-writer.ts';
import { projectAll } from '../support/projections/projected.ts';

/** Statements of sums that the projection keeps of days, beside those of the events of the log. */

const ACCOUNT = 'Account9';
const KEYS = ['Key00001', 'Key00002'];
const DAYS = 5;
const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;

let database: TestDatabase;
let writer: Writer;
let owner: Client;
/** Owns the projections. */
let worker: Client;
const random = randomFrom(3);

beforeAll(async () => {
  database = await createDatabase();
  writer = await openLivingWriter(database);
  owner = await connectAs(database, 'owner');
  worker = await connectAs(database, 'worker');
  await writer.control([{ event: registered(ACCOUNT, 'Ana'), version: 1 }]);
  let terms = 0;
  for (let day = 0; day < DAYS; day++) {
    // Prepaid from the second day on, and no more on the last.
    if (day === 1 || day === DAYS - 1) terms = await changeTerms(day === 1);
    if (day === 2) await topUp();
    for (let batch = 0; batch < 4; batch++) {
      await writeCalls(terms);
      await passTime(6);
    }
  }
  await projectAll(database);
});
afterAll(async () => {
  await Promise.all([owner?.end(), worker?.end()]);
  await writer?.[Symbol.asyncDispose]();
  await database?.[Symbol.asyncDispose]();
});

/** Of the account's stream. */
let version = 1;
const changeTerms = (isPrepaid: boolean): Promise<number> =>
  writer.control([
    {
      event: {
        ...{ type: 'account.terms_overridden', account: ACCOUNT, terms: { prepaid: isPrepaid } },
        ...{ windows: 'keep', actor: 'command-line' },
      },
      version: ++version,
    },
  ]);
const topUp = (): Promise<number> =>
  writer.control([
    {
      event: {
        ...{ type: 'account.topped_up', account: ACCOUNT, amount_nanousd: 10_000_000_000 },
        ...{ reference: 'wire 1', actor: 'command-line' },
      },
      version: ++version,
    },
  ]);

/** All that was written is so many hours older. */
async function passTime(hours: number): Promise<void> {
  for (const table of ['daybook.log_batch', 'daybook.log', 'daybook.correction', 'daybook.control_event'])
    await owner.query(`alter table ${table} disable trigger user;
      update ${table} set at = at - interval '${hours} hours'; alter table ${table} enable trigger user`);
}

/** Calls with each kind of ending, rejections, and corrections of some. */
async function writeCalls(terms: number): Promise<void> {
  const ofTerms = terms === 0 ? {} : { terms_position: terms };
  const begun = Array.from({ length: 20 }, (_, index) =>
    accepted({
      account: index % 5 === 0 ? 'Account1' : ACCOUNT,
      key: KEYS[random.below(2)] as string,
      model: ['gpt-5', 'claude-opus'][random.below(2)] as string,
      ...(index % 3 === 0 ? { end_user: 'EndUser000000001' } : {}),
      ...ofTerms,
    }),
  );
  await writer.append([...begun, ...begun.map((call) => endOf(call, ofTerms)), rejected(begun[1])]);
  await writer.correct(
    begun
      .filter((call) => call.account === ACCOUNT)
      .slice(0, 3)
      .map((call, index) => correctionOf(call, ofTerms, `bill-${index % 2}`)),
  );
}

type Call = EventOf<'request.accepted'>;

function endOf(call: Call, terms: object): EventOf<'request.settled' | 'request.abandoned'> {
  const { request, account, key, model, end_user: endUser } = call;
  const cost = random.below(2 ** 40);
  switch (random.below(6)) {
    case 0:
      return settled(call, terms);
    case 1:
      return {
        ...{ type: 'request.abandoned', request, account, key, model, ...terms },
        ...(endUser === undefined ? {} : { end_user: endUser }),
        ...{ hold_tokens: 500, hold_cost_nanousd: cost, end_reason: 'abandoned', usage_source: 'estimated' },
      };
    case 2:
      return settled(call, { cost_nanousd: cost, usage_source: 'counted', cache_write_tokens: 7, ...terms });
    default:
      return settled(call, { cost_nanousd: cost, input_tokens: 1 + random.below(9_000), ...terms });
  }
}

const rejected = (call: Call | undefined): EventOf<'request.rejected'> => ({
  ...{ type: 'request.rejected', route: '/v1/chat/completions', request: accepted().request },
  ...{ account: ACCOUNT, key: call?.key ?? '', model: 'gpt-5', error_code: 'rate_limit_exceeded' },
  ...{ status: 429, rejected_count: 3 },
});

const correctionOf = (call: Call, terms: object, reference: string): EventOf<'usage.adjusted'> => ({
  ...{ type: 'usage.adjusted', request: call.request, account: ACCOUNT, key: call.key, model: call.model },
  ...(call.end_user === undefined ? {} : { end_user: call.end_user }),
  ...{ end_reason: 'completed', cost_nanousd: random.below(2_000) - 1_000, input_tokens: -1, ...terms },
  ...{ reference, reason: 'billed twice', adjusted_by: 'command-line' },
});

type Wanted = Omit<StatementRequest, 'account'>;

async function read(wanted: Wanted): Promise<Statement> {
  return (await readStatement(worker, { account: ACCOUNT, ...wanted })).statement;
}

/** The beginning of a UTC day; 0: today. */
const dayStart = (days: number): Date => new Date(Math.floor(Date.now() / DAY_MS + days) * DAY_MS);
const PERIODS: Record<string, () => { from: Date; to: Date }> = {
  'whole days': () => ({ from: dayStart(-3), to: dayStart(-1) }),
  'parts of days': () => ({
    from: new Date(dayStart(-4).getTime() + 7 * HOUR_MS),
    to: new Date(dayStart(-1).getTime() + 11 * HOUR_MS),
  }),
  'hours of one day': () => ({ from: dayStart(-2), to: new Date(dayStart(-2).getTime() + 9 * HOUR_MS) }),
  'all time': () => ({ from: new Date('2000-01-01'), to: new Date('2100-01-01') }),
};
const GROUPS: StatementGroup[][] = [[], ['day'], ['key'], ['day', 'key'], ['key', 'end_user']];

describe('a statement of sums is that of the log', () => {
  const cases = Object.keys(PERIODS).flatMap((name) => GROUPS.map((groups) => [name, groups] as const));

  test.each(cases)('for %s, by %j', async (name, groups) => {
    const wanted = { ...(PERIODS[name] as () => { from: Date; to: Date })(), group_by: groups };
    const ofLog = await read({ ...wanted, fromLog: true });
    expect(await read(wanted)).toEqual(ofLog);
    if (name !== 'hours of one day') expect(ofLog.totals.requests).toBeGreaterThan(20);
  });

  test('for a key, and for an end user', async () => {
    const period = (PERIODS['parts of days'] as () => { from: Date; to: Date })();
    for (const subject of [{ key: KEYS[1] as string }, { end_user: 'EndUser000000001' }]) {
      const ofLog = await read({ ...period, ...subject, fromLog: true });
      expect(ofLog.totals.requests).toBeGreaterThan(5);
      expect(await read({ ...period, ...subject })).toEqual(ofLog);
    }
  });

  test('with opening and closing balances', async () => {
    const { balance } = await read({ from: dayStart(-2), to: dayStart(-1) });
    expect(balance?.opening_nanousd).not.toBe('0');
    expect(balance?.charges_nanousd).not.toBe('0');
    expect(await read({ from: dayStart(-2), to: dayStart(-1), fromLog: true })).toMatchObject({ balance });
  });
});

describe('a statement counts each event once', () => {
  const all = { from: new Date('2000-01-01'), to: new Date('2100-01-01'), group_by: ['key' as const] };

  test('where the projection lags, at every position of it', async () => {
    const ofLog = await read({ ...all, fromLog: true });
    const days = { from: dayStart(-4), to: dayStart(-1), group_by: ['day' as const] };
    const ofDays = await read({ ...days, fromLog: true });
    const tables = PROJECTIONS.flatMap(({ tables: own }) => own.map((table) => `projection.${table}`));
    await worker.query(`truncate ${tables.join(', ')};
      update daybook.projection set position = 0, position_at = null`);
    const epoch = await startEpoch(worker);
    for (let isBehind = true; isBehind;) {
      expect(await read(all)).toEqual(ofLog);
      expect(await read(days)).toEqual(ofDays);
      const page = await projectPage(worker, { projections: PROJECTIONS, epoch, pageEvents: 83 });
      isBehind = page.kind === 'projected' && page.range.upTo < page.head;
    }
  });

  test('where the projection has parked events, or is detached', async () => {
    const ofLog = await read({ ...all, fromLog: true });
    for (const change of [
      "update daybook.projection set is_live = false where name = 'usage'",
      "insert into daybook.parked_event (projection, position, reason) values ('usage', 5, 'test')",
    ]) {
      await worker.query(`begin; update projection.statement_day set cost_nanousd = 0; ${change}`);
      expect(await read(all)).toEqual(ofLog);
      await worker.query('rollback');
    }
  });
});

test('an invoice is of the log alone, also where sums of the projection are wrong', async () => {
  const billing = <T>(use: (control: BillingControl) => Promise<T>): Promise<T> =>
    withControl(database, 'test', (control, client) => use(new BillingControl(control, client)));
  await billing((control) => control.setIssuer({ name: 'Example', address: [], series: 'INV-' }));
  const period = { from: dayStart(-3), to: dayStart(-1) };
  const before = await read(period);
  await worker.query('update projection.statement_day set cost_nanousd = cost_nanousd + 1 where kind = 0');
  expect(BigInt((await read(period)).totals.cost_nanousd)).toBeGreaterThan(
    BigInt(before.totals.cost_nanousd),
  );
  const { invoice } = await billing((control) =>
    control.issue({ id: ACCOUNT }, { ...period, end_user: null }),
  );
  expect(invoice.total_nanousd).toBe(before.totals.due_nanousd);
  const { statement } = await readBilled(worker, invoice);
  expect(statement.totals.due_nanousd).toBe(before.totals.due_nanousd);
});
