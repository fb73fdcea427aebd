import { hash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { EventOf, Placed } from '#db/events/events.ts';
import { uuidv7 } from '#db/ids.ts';
import { publishCheckpoint } from '#db/tlog/publish.ts';
import type {
  CheckResult,
  CheckLine,
  CheckpointPage,
  Checks,
  Proof,
  ReceiptCheckResult,
  PastState,
} from '#server/contract/audit.ts';
import { changeEvents } from '../support/audit/change-lines.ts';
import { callDemo, signIn, type SignedInClient, startPeopledRelay } from '../support/dashboard.ts';
import { connectAs, openWriter } from '../support/log/log-writer.ts';
import { projectAll } from '../support/projections/projected.ts';
import type { TestDatabase } from '../support/database.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';

/**
 * What auditors and administrators see of the log's proof, of its state at any place, and of checks; and that
 * their reading is put down.
 */

let relay: TestRelay;
let administrator: SignedInClient;
let auditor: SignedInClient;
let ana: SignedInClient;
let directory: string;

beforeAll(async () => {
  directory = await mkdtemp(path.join(tmpdir(), 'daybook-audit-'));
  ({ relay, administrator, auditor, ana } = await startPeopledRelay({
    env: { PUBLISH_DIR: path.join(directory, 'published') },
  }));
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

async function publish(): Promise<void> {
  await using writer = await openWriter(relay.store);
  const client = await connectAs(relay.store, 'worker');
  let batchNo = 1_000;
  try {
    await publishCheckpoint(client, {
      keyFile: path.join(directory, 'signing-key'),
      directory: path.join(directory, 'published'),
      writer: { instance: writer.instance, nextBatchNo: () => batchNo++ },
    });
  } finally {
    await client.end();
  }
}

const head = async (): Promise<number> => (await relay.readLog()).at(-1)?.position ?? 0;
type LogRead = EventOf<'log.read'>;
/** What was put down of readings above a position. */
const readings = async (after: number): Promise<LogRead[]> =>
  (await relay.readLog())
    .filter(({ position, event }) => position > after && event.type === 'log.read')
    .map(({ event }) => event as LogRead);

const endingIn = (log: readonly Placed[]): EventOf<'request.settled'> => {
  const [found] = log.flatMap(({ event }) => (event.type === 'request.settled' ? [event] : []));
  if (!found) throw new Error('no call has ended');
  return found;
};

/** Makes a call, and waits for its end. */
async function callOf(of: TestRelay): Promise<string> {
  await callDemo(of, of.key);
  const log = await of.waitFor((events) => events.some(({ event }) => event.type === 'request.settled'));
  return endingIn(log).request;
}

/** Runs a check to its end. */
async function check(client: SignedInClient, what: string): Promise<CheckResult> {
  const reply = await fetch(`${client.origin}/api/v1/audit/checks`, {
    method: 'POST',
    headers: { origin: client.origin, cookie: client.cookie, 'content-type': 'application/json' },
    body: JSON.stringify({ target: what }),
  });
  const lines = (await reply.text())
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as CheckLine);
  const last = lines.at(-1);
  if (reply.status !== 200 || !last || !('result' in last))
    throw new Error(`${reply.status} ${JSON.stringify(lines)}`);
  return last.result;
}

describe('the proof', () => {
  test('shows uncovered events before the first checkpoint, then coverage and signing key', async () => {
    const before = await auditor.get<Proof>('/api/v1/audit/proof');
    expect(before).toMatchObject({
      status: 200,
      body: { latest: null, uncovered: { events: before.body.log.head }, keys: [], witnesses: [], lost: [] },
    });
    expect(before.body.log.head).toBe(await head());
    await publish();
    await ana.post('/api/v1/keys', { name: 'after it' });
    const { body } = await auditor.get<Proof>('/api/v1/audit/proof');
    const size = body.latest?.size ?? 0;
    expect(size).toBe((await head()) - 1);
    expect(body.uncovered).toMatchObject({ events: 1, since: expect.any(String) });
    expect(body.keys).toMatchObject([
      { is_signing: true, key_id: body.latest?.signed_by[0]?.key_id, at: expect.any(String) },
    ]);
    expect(body.latest?.note.split('\n').slice(0, 3)).toEqual([
      body.log.origin,
      String(size),
      body.latest?.root,
    ]);
  });

  test('has entry bundles for auditors, whose leaf hashes are in the public tiles', async () => {
    const { body } = await auditor.get<Proof>('/api/v1/audit/proof');
    const width = Math.min(255, body.latest?.size ?? 0);
    const ask = (name: string, cookie?: string): Promise<Response> =>
      fetch(`http://127.0.0.1:${relay.port}/log/tile/${name}`, { headers: cookie ? { cookie } : {} });
    const before = await head();
    const reply = await ask(`entries/000.p/${width}`, auditor.cookie);
    expect([reply.status, reply.headers.get('cache-control')]).toEqual([200, 'no-store']);
    const leaves: Buffer[] = [];
    const bundle = Buffer.from(await reply.arrayBuffer());
    for (let at = 0; at < bundle.length; at += 2 + bundle.readUInt16BE(at)) {
      const entry = bundle.subarray(at + 2, at + 2 + bundle.readUInt16BE(at));
      leaves.push(hash('sha256', Buffer.concat([Buffer.of(0), entry]), 'buffer'));
    }
    const tile = await (await ask(`0/000.p/${width}`)).arrayBuffer();
    expect(Buffer.concat(leaves).equals(Buffer.from(tile))).toBe(true);
    expect(await readings(before)).toMatchObject([
      { what: 'events', actor: expect.stringMatching(/^member/) },
    ]);
    const refused = async (name: string, cookie?: string) =>
      ((await (await ask(name, cookie)).json()) as { error: { code: string } }).error.code;
    expect([
      await refused('entries/000.p/1'),
      await refused('entries/000.p/1', ana.cookie),
      await refused('entries/900', auditor.cookie),
      await refused('entries/000.p/300', auditor.cookie),
    ]).toEqual(['unauthenticated', 'insufficient_role', 'invalid_value', 'route_not_found']);
  });

  test('has all checkpoints page by page, the newest first, with who cosigned each', async () => {
    await publish();
    await ana.post('/api/v1/keys', { name: 'one more' });
    await publish();
    const all: number[] = [];
    let query = '?limit=1';
    for (;;) {
      const { body } = await administrator.get<CheckpointPage>(`/api/v1/audit/checkpoints${query}`);
      all.push(...body.data.map(({ size }) => size));
      if (body.next === null) break;
      query = `?limit=1&cursor=${body.next}`;
    }
    expect(all.length).toBeGreaterThan(2);
    expect(all).toEqual(all.toSorted((left, right) => right - left));
    expect(new Set(all).size).toBe(all.length);
    const client = await connectAs(relay.store, 'relay');
    await client.query(
      `insert into daybook.cosignature (epoch, size, witness, line)
       values (1, $1, 'witness.example', '— line')`,
      [all[1]],
    );
    await client.end();
    const { body: page } = await administrator.get<CheckpointPage>('/api/v1/audit/checkpoints');
    expect(page.data.map(({ witnesses }) => witnesses)).toEqual(
      all.map((_size, at) => (at === 1 ? ['witness.example'] : [])),
    );
    const { body: proof } = await administrator.get<Proof>('/api/v1/audit/proof');
    expect(proof.witnesses).toEqual([
      {
        name: 'witness.example',
        configured: false,
        size: all[1],
        seen_at: expect.any(String),
        behind: (all[0] ?? 0) - (all[1] ?? 0),
      },
    ]);
  });
});

describe('the state at a position', () => {
  const then = async (query: string): Promise<PastState> =>
    (await auditor.get<PastState>(`/api/v1/audit/state?${query}`)).body;

  test('is that of the moment, and no digest of a secret is in it', async () => {
    const { body: key } = await ana.post<{ id: string }>('/api/v1/keys', { name: 'first name' });
    const made = await head();
    await ana.patch(`/api/v1/keys/${key.id}`, { name: 'second name' });
    const renamed = await head();
    await ana.post(`/api/v1/keys/${key.id}/revoke`);
    expect((await then(`key=${key.id}&at=${made - 1}`)).subject).toBeNull();
    expect((await then(`key=${key.id}&at=${made}`)).subject).toMatchObject({
      kind: 'key',
      name: 'first name',
      state: 'active',
    });
    expect((await then(`key=${key.id}&at=${renamed}`)).subject).toMatchObject({
      name: 'second name',
      state: 'active',
    });
    const now = await then(`key=${key.id}`);
    expect(now).toMatchObject({ subject: { state: 'revoked' }, events_omitted: 0 });
    expect(now.events.map(({ type }) => type)).toEqual(['key.revoked', 'key.renamed', 'key.created']);
    expect(JSON.stringify(now)).not.toMatch(/[0-9a-f]{64}/);
  });

  test('has for an account what its plan gave it then, by position and by time', async () => {
    const account = ana.me.account.id;
    await administrator.put('/api/v1/plans/audited', { terms: { requests_per_minute: 7 } });
    await administrator.put(`/api/v1/accounts/${account}/plan`, { plan: 'audited' });
    const log = await relay.readLog();
    const { position, at } = log.at(-1) as (typeof log)[number];
    await administrator.put('/api/v1/plans/audited', { terms: { requests_per_minute: 8 } });
    await administrator.post(`/api/v1/accounts/${account}/suspend`);
    expect((await then(`account=${account}&at=${position}`)).subject).toMatchObject({
      kind: 'account',
      state: 'active',
      plan: 'audited',
      terms: { requests_per_minute: 7 },
    });
    expect(await then(`account=${account}&time=${at.toISOString()}`)).toMatchObject({
      position,
      at: at.toISOString(),
      subject: { terms: { requests_per_minute: 7 } },
    });
    expect((await then(`account=${account}`)).subject).toMatchObject({
      state: 'suspended',
      terms: { requests_per_minute: 8 },
    });
    expect((await then(`plan=audited&at=${position}`)).subject).toMatchObject({
      kind: 'plan',
      terms: { requests_per_minute: 7 },
    });
    expect(await then('plan=audited&time=2001-01-01T00:00:00Z')).toMatchObject({
      position: 0,
      at: null,
      subject: null,
    });
    await administrator.post(`/api/v1/accounts/${account}/reinstate`);
  });

  test.each([
    ['', 'account'],
    ['account=Unknown0&key=Unknown0', 'account'],
    ['account=Unknown0&at=1&time=2027-01-01T00:00:00Z', 'time'],
    ['plan=x&at=-1', 'at'],
  ])('asked for in no usable way it says what is wrong: "%s"', async (query, param) => {
    expect(await auditor.get(`/api/v1/audit/state?${query}`)).toMatchObject({
      status: 400,
      code: 'invalid_value',
      body: { error: { param } },
    });
  });
});

describe('a check', () => {
  test('of a projection finds it as the log says, and names the row that is not', async () => {
    const { body: key } = await ana.post<{ secret: string }>('/api/v1/keys', { name: 'calls' });
    await callDemo(relay, key.secret);
    await relay.waitFor((events) => events.some(({ event }) => event.type === 'request.settled'));
    await projectAll(relay.store);
    expect(await check(auditor, 'requests')).toMatchObject({
      target: 'requests',
      outcome: 'verified',
      actor: `member/${auditor.me.member.id}`,
      findings: [],
    });
    const client = await connectAs(relay.store, 'worker');
    await client.query(
      'update projection.request set output_tokens = output_tokens + 1 where output_tokens is not null',
    );
    await client.end();
    const bad = await check(auditor, 'requests');
    expect(bad).toMatchObject({
      outcome: 'mismatch',
      findings: [
        {
          where: expect.stringMatching(/^request request=/),
          problem: expect.stringMatching(/^output_tokens is \d+, not \d+$/),
        },
      ],
    });
    const { body } = await administrator.get<Checks>('/api/v1/audit/checks');
    expect(body).toMatchObject({ running: null, latest: [bad] });
    expect(body.projections).toContain('requests');
  });

  test('runs alone on its server, and ends when its client disconnects', async () => {
    const held = await connectAs(relay.store, 'worker');
    try {
      // Nothing that goes through this table gets on.
      await held.query('begin; lock table projection.request in access exclusive mode');
      const leave = new AbortController();
      const begun = await fetch(`${auditor.origin}/api/v1/audit/checks`, {
        method: 'POST',
        headers: { origin: auditor.origin, cookie: auditor.cookie, 'content-type': 'application/json' },
        body: '{"target":"requests"}',
        signal: leave.signal,
      });
      expect(begun.status).toBe(200);
      expect(await administrator.post('/api/v1/audit/checks', { target: 'usage' })).toMatchObject({
        status: 409,
        code: 'not_allowed',
      });
      expect((await administrator.get<Checks>('/api/v1/audit/checks')).body.running).toMatchObject({
        target: 'requests',
      });
      leave.abort();
      await expect
        .poll(async () => (await administrator.get<Checks>('/api/v1/audit/checks')).body.running)
        .toBeNull();
    } finally {
      await held.end();
    }
    expect((await check(administrator, 'usage')).outcome).toBe('verified');
  });

  test('of the log finds it as it was signed, and names the first position that is not', async () => {
    await publish();
    const covered = (await auditor.get<Proof>('/api/v1/audit/proof')).body.latest?.size ?? 0;
    const good = await check(auditor, 'log');
    expect(good).toMatchObject({
      target: 'log',
      outcome: 'verified',
      findings: [],
      summary: expect.stringContaining(`the newest covers positions up to ${covered}`),
    });
    expect(good.position).toBeGreaterThanOrEqual(covered);
    const superuser = await (relay.store as TestDatabase).superuser();
    const { rows } = await superuser.query<{ position: string }>(
      'select min(position) as position from daybook.events() where type = 101',
    );
    const position = Number(rows[0]?.position);
    const change = (plus: number) =>
      superuser.query(changeEvents(`position = ${position}`, { output_tokens: `output_tokens + ${plus}` }));
    try {
      await superuser.query("set session_replication_role = 'replica'");
      await change(1);
      const bad = await check(auditor, 'log');
      await change(-1);
      expect(bad).toMatchObject({
        outcome: 'mismatch',
        summary: `The first invalid position is ${position}.`,
        findings: [{ position, where: 'log' }],
      });
      expect((await check(auditor, 'log')).outcome).toBe('verified');
    } finally {
      await superuser.end();
    }
  });

  test('of an unknown target is not found', async () => {
    expect(await auditor.post('/api/v1/audit/checks', { target: 'nothing' })).toMatchObject({
      status: 404,
      code: 'not_found',
    });
  });
});

describe('a receipt', () => {
  test('of this log is valid for every reader; a changed one is invalid', async () => {
    const call = endingIn(await relay.readLog());
    const { status, body: receipt } = await ana.get<{
      request: string;
      checkpoint: string;
      events: { entry: string }[];
    }>(`/api/v1/requests/${call.request}/receipt`);
    expect(status).toBe(200);
    const text = JSON.stringify(receipt);
    const good = await ana.post<ReceiptCheckResult>('/api/v1/audit/receipt', { receipt: text });
    expect(good.body).toMatchObject({ valid: true, problem: null });
    expect(good.body.statements).toEqual(
      expect.arrayContaining([
        `Request ${call.request}`,
        expect.stringMatching(/settled \(completed\)/),
        expect.stringMatching(/^Proven: /),
      ]),
    );
    const [first] = receipt.events;
    const lies = [
      { ...receipt, request: uuidv7() },
      { ...receipt, events: [{ ...first, entry: first?.entry.replace('539', '538') }] },
      { ...receipt, checkpoint: receipt.checkpoint.replace(/\n\d+\n/, '\n40\n') },
    ];
    for (const changed of [...lies.map((lie) => JSON.stringify(lie)), 'nothing', '{}']) {
      const bad = await auditor.post<ReceiptCheckResult>('/api/v1/audit/receipt', { receipt: changed });
      expect(bad.body).toMatchObject({ valid: false, statements: [], problem: expect.any(String) });
    }
  });

  test('that another log has signed is not one of this', async () => {
    await using other = await startRelay();
    const elsewhere = path.join(directory, 'elsewhere');
    await using writer = await openWriter(other.store);
    const client = await connectAs(other.store, 'worker');
    const request = await callOf(other);
    let batchNo = 1_000;
    await publishCheckpoint(client, {
      keyFile: path.join(elsewhere, 'signing-key'),
      directory: path.join(elsewhere, 'published'),
      writer: { instance: writer.instance, nextBatchNo: () => batchNo++ },
    });
    await client.end();
    await projectAll(other.store);
    const reply = await fetch(`${other.baseUrl}/requests/${request}/receipt`, {
      headers: { authorization: `Bearer ${other.key}` },
    });
    expect(reply.status).toBe(200);
    const { body } = await ana.post<ReceiptCheckResult>('/api/v1/audit/receipt', {
      receipt: await reply.text(),
    });
    expect(body).toMatchObject({
      valid: false,
      problem: expect.stringContaining('not signed by the given key'),
    });
  });
});

describe('that the log was read', () => {
  test('is put down for each export, state and check, with who, what and which positions', async () => {
    const before = await head();
    await auditor.get('/api/v1/events.ndjson');
    const exported = await head();
    await auditor.get(`/api/v1/audit/state?account=${ana.me.account.id}&at=5`);
    await check(administrator, 'usage');
    const actor = `member/${auditor.me.member.id}`;
    expect(await readings(before)).toEqual([
      { type: 'log.read', actor, what: 'export', from_position: 1, to_position: before },
      { type: 'log.read', actor, what: 'replay', from_position: 1, to_position: 5 },
      {
        type: 'log.read',
        actor: `member/${administrator.me.member.id}`,
        what: 'diff',
        from_position: 1,
        to_position: exported + 1,
      },
    ]);
  });

  test('is put down once for a session that leafs through the list, and for each session', async () => {
    const again = await signIn(relay, auditor.email);
    const before = await head();
    for (const query of ['', '?limit=2', '?type=key'])
      expect((await again.get(`/api/v1/events${query}`)).status).toBe(200);
    expect(await readings(before)).toMatchObject([{ what: 'events', to_position: before }]);
    const other = await signIn(relay, auditor.email);
    await other.get('/api/v1/events');
    expect(await readings(before)).toHaveLength(2);
    const { body } = await other.get<{ data: { type: string }[] }>('/api/v1/events?type=log.read&limit=1');
    expect(body.data).toMatchObject([{ type: 'log.read', actor: `member/${auditor.me.member.id}` }]);
  });

  test('is not put down of members, who see what is their own', async () => {
    const before = await head();
    await ana.get('/api/v1/events');
    await ana.get('/api/v1/events.ndjson');
    expect(await head()).toBe(before);
  });
});
