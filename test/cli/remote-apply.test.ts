import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { ManagementScope } from '#db/events/management-scopes.ts';
import type { StatePlan } from '#server/contract/desired-state/desired-state.ts';
import type { CreatedManagementKey } from '#server/contract/keys.ts';
import { type SignedInClient, startPeopledRelay, visit } from '../support/dashboard.ts';
import type { TestRelay } from '../support/relay.ts';
import { commandLine } from '../support/servers/command-line.ts';

/** A relay declared by a file and applied over the management API, beside people who use the dashboard. */

const SECRET = 'sk-canary-credential-7f3a9c51be02';

let relay: TestRelay;
let administrator: SignedInClient;
let key: CreatedManagementKey;
let server: string;
let variables: Record<string, string>;

beforeAll(async () => {
  ({ relay, administrator } = await startPeopledRelay());
  server = `http://127.0.0.1:${relay.port}`;
  key = await createKey(['upstreams:write', 'plans:write', 'prices:write']);
  variables = { DAYBOOK_SERVER: server, DAYBOOK_MANAGEMENT_KEY: key.secret, SECRET };
});
afterAll(() => relay?.[Symbol.asyncDispose]());

async function createKey(scopes: ManagementScope[]): Promise<CreatedManagementKey> {
  const made = await administrator.post<CreatedManagementKey>('/api/v1/management-keys', {
    name: 'terraform',
    scopes,
    account: null,
  });
  return made.body;
}

// Neither a database nor a data directory: only the server's address.
const { daybook } = commandLine(() => variables);

async function file(requestsPerMinute: number): Promise<string> {
  const name = path.join(relay.dataDir, 'relay.yaml');
  await writeFile(
    name,
    [
      'upstreams:',
      '  openai:',
      '    provider: openai',
      '    base_url: https://api.example.com/v1',
      '    models: [gpt-*]',
      '    credentials: [{label: main, secret: "${SECRET}"}]',
      'models: {fast: {targets: [{upstream: openai, model: gpt-4o-mini}]}}',
      `plans: {free: {requests_per_minute: ${requestsPerMinute}}}`,
      'prices: {gpt-4o*: {input: 2.50, output: 10}}',
    ].join('\n'),
  );
  return name;
}

test('a file is planned with exit code 2 and applied once, by the key as the actor', async () => {
  const name = await file(60);
  const before = (await relay.readLog()).length;
  const plan = await daybook('apply', name, '--dry-run');
  expect([plan.code, plan.stderr]).toEqual([2, '']);
  expect(plan.stdout).toContain('+ plan "free"\n    + requests_per_minute: 60');
  expect(plan.stdout).toContain('+ credential "main": …be02');
  expect((await relay.readLog()).length).toBe(before);

  const applied = await daybook('apply', name, '--yes');
  expect([applied.code, applied.stderr]).toEqual([0, '']);
  const events = (await relay.readLog()).slice(before).map(({ event }) => event);
  expect(new Set(events.map(({ type }) => type))).toEqual(
    new Set(['upstream.added', 'upstream.credential_added', 'model.defined', 'plan.defined', 'model.priced']),
  );
  for (const event of events) expect(event).toMatchObject({ actor: `management_key/${key.id}` });
  expect(JSON.stringify(events)).not.toContain(SECRET);

  expect(await daybook('apply', name, '--dry-run')).toMatchObject({ code: 0 });
  expect(await daybook('apply', name, '--yes')).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('Nothing to do') as string,
  });
});

test('drift names what others changed, by actor and position, and ends with exit code 2', async () => {
  const name = await file(60);
  await daybook('apply', name, '--yes');
  expect(await daybook('drift', name)).toMatchObject({ code: 0 });
  const changed = await administrator.put<{ event: { position: number } }>('/api/v1/plans/free', {
    terms: { requests_per_minute: 1 },
  });
  const { code, stdout } = await daybook('drift', name);
  expect(code).toBe(2);
  expect(stdout).toContain('~ plan "free"\n    ~ requests_per_minute: 1 -> 60');
  expect(stdout).toContain(`plan.changed by member/${administrator.me.member.id} at `);
  expect(stdout).toContain(`position ${changed.body.event.position}`);
  await daybook('apply', name, '--yes');
  expect(await daybook('drift', name)).toMatchObject({ code: 0 });
});

test('an edited file is a plan, but no drift', async () => {
  await daybook('apply', await file(60), '--yes');
  const edited = await file(70);
  expect(await daybook('apply', edited, '--dry-run')).toMatchObject({ code: 2 });
  expect(await daybook('drift', edited)).toMatchObject({ code: 0 });
});

test('a plan that was agreed to is applied only while its differences are the same', async () => {
  const program = visit(relay, { authorization: `Bearer ${key.secret}`, origin: '' });
  const state = { plans: { agreed: { requests_per_minute: 5 } } };
  const { body } = await program.post<StatePlan>('/api/v1/desired-state/plan', { state });
  await administrator.put('/api/v1/plans/agreed', { terms: { requests_per_minute: 6 } });
  const { digest } = body;
  expect(await program.post('/api/v1/desired-state/apply', { state, digest })).toMatchObject({
    status: 412,
    code: 'precondition_failed',
  });
});

test('each section needs its scope, and failures end with exit codes of their own', async () => {
  const name = await file(80);
  variables = { ...variables, DAYBOOK_MANAGEMENT_KEY: (await createKey(['upstreams:write'])).secret };
  const rejected = await daybook('apply', name, '--yes');
  expect([rejected.code, rejected.stderr]).toEqual([1, expect.stringContaining('plans:read') as string]);
  const clear = await daybook('drift', name, '--server', 'http://daybook.example.com');
  expect([clear.code, clear.stderr]).toEqual([1, expect.stringContaining('HTTPS') as string]);
  const away = await daybook('drift', name, '--server', 'http://127.0.0.1:1');
  expect([away.code, away.stderr]).toEqual([4, expect.stringContaining("can't be reached") as string]);
});
