import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { publicId } from '#db/ids.ts';
import { verifyStatementFile } from '#db/statement/file.ts';
import type { InvoiceChange, InvoiceList, StatementReply } from '#server/contract/statements.ts';
import { type SignedInClient, startPeopledRelay } from '../support/dashboard.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { accepted, openLivingWriter, settled, type Writer } from '../support/log/log-writer.ts';
import { projectAll } from '../support/projections/projected.ts';
import { publishNow } from '../support/audit/publishing.ts';
import { type ApiReader, readerWith } from '../support/reader.ts';
import type { TestRelay } from '../support/relay.ts';

/** Statements and invoices over a real socket: for keys under `/v1/`, and for members under `/api/v1/`. */

let relay: TestRelay;
let writer: Writer;
let directory: string;
let administrator: SignedInClient;
let auditor: SignedInClient;
let ana: SignedInClient;
let ben: SignedInClient;
let reader: ApiReader;
let key: string;

const END_USER = 'EndUser000000001';
const period = `from=${new Date(Date.now() - 86_400_000).toISOString().slice(0, 10)}&to=2100-01-01`;
const COSTS = [70, 900, 12] as const;
const TOTAL = String(COSTS.reduce((sum, cost) => sum + cost, 0));

beforeAll(async () => {
  directory = await makeTestDirectory();
  ({ relay, administrator, auditor, ana, ben } = await startPeopledRelay());
  writer = await openLivingWriter(relay.store);
  const account = ana.me.account;
  const made = await relay.createKey({ account: account.name });
  key = made.id;
  reader = readerWith(relay.port, made.secret);
  for (const [index, cost] of COSTS.entries()) {
    const begun = accepted({
      account: account.id,
      key: index === 2 ? publicId() : key,
      ...(index === 1 ? { end_user: END_USER } : {}),
    });
    await writer.append([begun]);
    await writer.append([settled(begun, { cost_nanousd: cost, upstream_cost_nanousd: cost + 1 })]);
  }
  await projectAll(relay.store);
});
afterAll(async () => {
  await writer?.[Symbol.asyncDispose]();
  await relay?.[Symbol.asyncDispose]();
  await removeTestDirectory(directory);
});

test('a key gets the statement of its own calls, and no cost of the operator', async () => {
  const { status, json, text } = await reader.get<StatementReply>(`/v1/statements?${period}`);
  expect(status, text).toBe(200);
  expect(json).toMatchObject({
    object: 'statement',
    account: ana.me.account.id,
    key,
    is_final: false,
    totals: { requests: 2, cost_nanousd: '970' },
  });
  expect(text).not.toContain('upstream_cost');
});

test('a key that reads its account gets the statement of all its calls', async () => {
  const other = await relay.createKey({ account: ana.me.account.name });
  await relay.control((control) =>
    control.restrictKey(other.id, {
      set: { reads: 'account' },
      drop: [],
      clear: false,
      expiresAt: undefined,
      windows: 'keep',
    }),
  );
  const { json } = await readerWith(relay.port, other.secret).get<StatementReply>(
    `/v1/statements?${period}&group_by=key,end_user`,
  );
  expect(json.totals).toMatchObject({ requests: 3, cost_nanousd: TOTAL });
  expect(json.lines.map(({ end_user: endUser }) => endUser)).toContain(END_USER);
});

test('CSV adds up to the total, and PDF is a document', async () => {
  const csv = await reader.get(`/v1/statements?${period}&format=csv`);
  expect(csv.headers.get('content-type')).toContain('text/csv');
  const costs = csv.text
    .trim()
    .split(/\r?\n/)
    .slice(1)
    .map((row) => Number(row.split(',').at(-3)));
  expect(costs.reduce((sum, cost) => sum + cost, 0)).toBe(970);
  const pdf = await reader.get(`/v1/statements?${period}&format=pdf`);
  expect([pdf.headers.get('content-type'), pdf.text.slice(0, 5)]).toEqual(['application/pdf', '%PDF-']);
});

test('a statement of a part of the account names its end user, and leaves the others out', async () => {
  const { json } = await reader.get<StatementReply>(`/v1/statements?${period}&end_user=${END_USER}`);
  expect(json.totals).toMatchObject({ requests: 1, cost_nanousd: '900' });
});

test.for([
  ['', 'period'],
  ['period=2027-13', 'period'],
  ['period=2027-01&from=2027-01-01', 'period'],
  ['from=2027-01-02&to=2027-01-01', 'from'],
  ['period=2027-01&format=xml', 'format'],
  ['period=2027-01&group_by=session', 'group_by'],
  ['period=2027-01&colour=red', 'colour'],
])('a query that names no statement (%s) is a 400 with its parameter', async ([query, param]) => {
  const { status, json } = await reader.get(`/v1/statements?${query}`);
  expect([status, json.error.code, json.error.param]).toEqual([400, 'invalid_value', param]);
});

test('a statement of another account or key is refused', async () => {
  const other = `account=${ana.me.account.id}`;
  expect((await ben.get(`/api/v1/statements?${period}&${other}`)).code).toBe('invalid_value');
  for (const foreign of [`key=${publicId()}`, `account=${ben.me.account.id}`]) {
    const { status, json } = await reader.get(`/v1/statements?${period}&${foreign}`);
    expect([status, json.error.code]).toEqual([400, 'invalid_value']);
  }
  expect((await readerWith(relay.port, 'dbk_unknown').get(`/v1/statements?${period}`)).status).toBe(401);
  const own = await ana.get<StatementReply>(`/api/v1/statements?${period}`);
  expect(own.body.totals.cost_nanousd).toBe(TOTAL);
  const overseen = await auditor.get<StatementReply>(`/api/v1/statements?${period}&${other}`);
  expect(overseen.body.totals.cost_nanousd).toBe(TOTAL);
  expect((await auditor.get(`/api/v1/statements?${period}`)).code).toBe('invalid_value');
});

test('the proof of a member’s statement verifies offline', async () => {
  await publishNow(relay.store, {
    keyFile: path.join(directory, 'key'),
    directory: path.join(directory, 'published'),
  });
  const { status, body } = await ana.get(`/api/v1/statements?${period}&format=proof`);
  expect(status, JSON.stringify(body)).toBe(200);
  const verified = verifyStatementFile(body, { keys: [], witnesses: [] });
  expect(verified.statement.totals.cost_nanousd).toBe(TOTAL);
});

test('an administrator issues an invoice once and takes it back; only its account reads both', async () => {
  const account = ana.me.account.id;
  const issue = () => administrator.post<InvoiceChange>('/api/v1/invoices', { account, period: '2020-01' });
  expect((await issue()).code).toBe('not_allowed');
  const terms = { name: 'Example Relay', address: ['Main Street 1'], series: 'INV-' };
  expect((await administrator.put('/api/v1/issuer', terms)).status).toBe(200);
  const first = await issue();
  expect([first.status, first.body.name]).toEqual([200, 'INV-0001']);
  expect((await issue()).body).toEqual({ event: null, name: 'INV-0001' });
  const credited = await administrator.post<InvoiceChange>('/api/v1/invoices/1/credit', {
    reason: 'address',
  });
  expect(credited.body.name).toBe('INV-0002');
  const listed = await ana.get<InvoiceList>('/api/v1/invoices');
  expect(listed.body.data).toMatchObject([
    { name: 'INV-0002', kind: 'credit_note', counterpart: 'INV-0001', reason: 'address' },
    {
      name: 'INV-0001',
      kind: 'invoice',
      counterpart: 'INV-0002',
      period: { from: '2020-01-01T00:00:00.000Z' },
    },
  ]);
  expect((await ana.get<StatementReply>('/api/v1/invoices/1')).body.issuer).toEqual(terms);
  expect((await ben.get<InvoiceList>('/api/v1/invoices')).body.data).toEqual([]);
  expect((await ben.get('/api/v1/invoices/1')).status).toBe(404);
  expect((await administrator.get('/api/v1/invoices/7')).status).toBe(404);
});
