import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { formatDollars } from '#db/money.ts';
import type { BillLine } from '#db/reconcile/bill/line.ts';
import type {
  ReconciliationLine,
  ReconciliationList,
  ReconciliationReport,
} from '#server/contract/reconciliations.ts';
import { setUp, type SignedInClient, startPeopledRelay } from '../support/dashboard.ts';
import { projectAll } from '../support/projections/projected.ts';
import { linesOf } from '../support/providers/billing-provider.ts';
import { STANDARD } from '../reconcile/plants.ts';
import { startWorld } from '../reconcile/world.ts';
import type { TestRelay } from '../support/relay.ts';

/** Comparisons that the dashboard starts, in a thread beside the calls, and what its page shows of them. */

let relay: TestRelay;
let administrator: SignedInClient;
let auditor: SignedInClient;
beforeAll(async () => {
  ({ relay, administrator, auditor } = await startPeopledRelay().then(
    ({ administrator: one, auditor: other, ...started }) => ({
      relay: started.relay,
      administrator: one,
      auditor: other,
    }),
  ));
});
afterAll(async () => relay?.[Symbol.asyncDispose]());

const DAY = '2026-10-01';
const BILL = [
  'date,kind,model,cost',
  `${DAY},usage,gpt,1.25`,
  `${DAY},discount,gpt,-0.25`,
  '2026-10-02,tax,gpt,0.1',
].join('\n');

const started = (text: string, more: object = {}): object => ({
  bill: { from: 'files', provider: 'acme', files: [{ name: 'bill.csv', format: 'csv', text }] },
  upstreams: [],
  models: {},
  credentials: {},
  rates: {},
  tolerance_nanousd: 0,
  tolerance_ppm: 0,
  ...more,
});

async function run(path: string, body: object, client = administrator): Promise<ReconciliationLine[]> {
  const { status, body: text } = await client.post<string>(path, body);
  expect(status).toBe(200);
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as ReconciliationLine);
}

describe('a comparison', () => {
  test('reports its progress, is recorded under its member, and is shown with its totals', async () => {
    const lines = await run('/api/v1/reconciliations', started(BILL));
    expect(lines[0]).toEqual({ done: 0, of: 0 });
    const last = lines.at(-1) as { result: { id: string } };
    const { id } = last.result;
    const { body: list } = await auditor.get<ReconciliationList>('/api/v1/reconciliations');
    expect(list).toMatchObject({
      running: null,
      data: [{ id, provider: 'acme', bill_nanousd: 1_100_000_000, log_nanousd: 0, differences: 3 }],
    });
    const { body: report } = await auditor.get<ReconciliationReport>(`/api/v1/reconciliations/${id}`);
    expect(report).toMatchObject({
      recorded_by: `member/${administrator.me.member.id}`,
      reconciled_nanousd: '1100000000',
      unexplained_nanousd: 0,
      classes: [{ class: 'missing_here' }, { class: 'discount' }, { class: 'tax' }],
      differences_omitted: 0,
    });
    expect(report.cells.map(({ day, bill_nanousd: bill }) => [day, bill])).toEqual([
      [DAY, '1000000000'],
      ['2026-10-02', '100000000'],
    ]);
    const csv = await auditor.get<string>(`/api/v1/reconciliations/${id}/report?format=differences`);
    expect(csv.headers.get('content-disposition')).toContain(`reconciliation-${id}-differences.csv`);
    expect(csv.body.split('\r\n')[2]).toMatch(/^2,discount,2026-10-01,gpt,,,1,-250000000,false/);
    expect((await auditor.get<string>(`/api/v1/reconciliations/${id}/report?format=days`)).body).toContain(
      `${DAY},gpt,,,0,1000000000,0,0`,
    );
    expect((await auditor.get<string>(`/api/v1/reconciliations/${id}/report?format=text`)).body).toContain(
      `Reconciliation ${id}: acme`,
    );
  });

  test('of a malformed bill names the place, and records nothing', async () => {
    const before = await auditor.get<ReconciliationList>('/api/v1/reconciliations');
    const lines = await run('/api/v1/reconciliations', started(`${BILL}\n2026-10-03,usage,gpt,1.2.3`));
    expect(lines.at(-1)).toEqual({ error: expect.stringContaining('line 5') });
    const after = await auditor.get<ReconciliationList>('/api/v1/reconciliations');
    expect(after.body.data).toEqual(before.body.data);
    expect(after.body.running).toBeNull();
  });

  test('is one at a time, and ends when its connection closes', async () => {
    const leave = new AbortController();
    const first = fetch(`${administrator.origin}/api/v1/reconciliations`, {
      method: 'POST',
      headers: {
        origin: administrator.origin,
        cookie: administrator.cookie,
        'content-type': 'application/json',
      },
      body: JSON.stringify(started(BILL)),
      signal: leave.signal,
    });
    await first;
    expect(await administrator.post('/api/v1/reconciliations', started(BILL))).toMatchObject({
      status: 409,
      code: 'not_allowed',
    });
    leave.abort();
    await expect
      .poll(async () => (await auditor.get<ReconciliationList>('/api/v1/reconciliations')).body.running)
      .toBeNull();
  });

  test('of a difference that no correction explains is not applied', async () => {
    const { body } = await auditor.get<ReconciliationList>('/api/v1/reconciliations');
    const id = body.data[0]?.id ?? '';
    const lines = await run(`/api/v1/reconciliations/${id}/apply`, { differences: [1], reason: 'the bill' });
    expect(lines.at(-1)).toEqual({ error: expect.stringContaining('no recorded figure is wrong') });
  });

  test('that does not exist is 404', async () => {
    expect(await auditor.get('/api/v1/reconciliations/Unknown0')).toMatchObject({ status: 404 });
  });
});

/** Lines of a bill with request ids as CSV. */
function csvOf(lines: readonly BillLine[]): string {
  const header = 'from,model,credential,service_tier,request_id,part,quantity,requests,cost';
  const rows = lines.map(({ from, model, credential, serviceTier, requestId, part, ...line }) =>
    [
      ...[from.toISOString(), model, credential, serviceTier, requestId, part],
      ...[line.quantity, line.requests ?? '', formatDollars(line.cost ?? 0n)],
    ].join(','),
  );
  return [header, ...rows].join('\n');
}

test('reviewed differences are recorded as adjustments once, and shown as recorded', async () => {
  await using world = await startWorld('chatcmpl-page');
  const client = await setUp(world.relay);
  const [planted] = await world.call('chat', { parts: { input: 700, cache_read: 300, output: 50 } });
  const lines = world.provider.ledger.flatMap((booked) =>
    linesOf(booked, STANDARD, booked === planted ? { parts: { input: 1_000, output: 50 } } : {}),
  );
  await world.relay.waitFor((events) => {
    const ended = events.filter(({ event }) => event.type === 'request.settled');
    return ended.length === world.provider.ledger.length;
  });
  await projectAll(world.relay.store);
  const compared = await run('/api/v1/reconciliations', started(csvOf(lines)), client);
  const { id } = (compared.at(-1) as { result: { id: string } }).result;
  const report = async (): Promise<ReconciliationReport> =>
    (await client.get<ReconciliationReport>(`/api/v1/reconciliations/${id}`)).body;
  const { differences } = await report();
  expect(differences).toMatchObject([{ id: 1, class: 'token_class', correctable: 1, corrected: 0 }]);
  const apply = () =>
    run(`/api/v1/reconciliations/${id}/apply`, { differences: [1], reason: 'the bill' }, client);
  expect((await apply()).at(-1)).toEqual({ result: { id, corrected: 1, repeated: 0 } });
  expect((await report()).differences).toMatchObject([{ correctable: 1, corrected: 1 }]);
  expect((await apply()).at(-1)).toEqual({ result: { id, corrected: 0, repeated: 1 } });
  const adjusted = (await world.relay.readLog()).filter(({ event }) => event.type === 'usage.adjusted');
  expect(adjusted.map(({ event }) => event)).toMatchObject([
    { reference: `reconciliation:${id}:1`, adjusted_by: `member/${client.me.member.id}`, reason: 'the bill' },
  ]);
});
