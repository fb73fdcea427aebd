import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { closeClient } from '#db/postgres/connect.ts';
import type { AttributionNames } from '#server/contract/attribution.ts';
import type { RequestPage } from '#server/contract/requests.ts';
import type { UsageReport } from '#server/contract/usage.ts';
import { chat } from '../support/client.ts';
import { addMember, type SignedInClient } from '../support/dashboard.ts';
import type { TestDashboard } from '../support/browser/dashboard-browser.ts';
import { connectAs } from '../support/log/log-writer.ts';
import { until } from '../support/relay.ts';
import { refusedPort, type ScriptedUpstream } from '../support/upstream/upstream.ts';
import { seedHistory } from './seed-history.ts';

/**
 * An installation as a small team has it after some time, so that pages are looked at with something in them.
 */
export type Seeded = {
  member: SignedInClient;
  auditor: SignedInClient;
  /** Makes calls until it is aborted. */ traffic(signal: AbortSignal): Promise<void>;
};

/** What the scripted upstream answers for models with names as people know them. */
const SCRIPTS: Record<string, string> = {
  'gpt-5.2-mini': 'tokens=40,spread=60,every=12ms',
  'claude-sonnet-5': 'tokens=120,spread=200,every=15ms',
  'llama-4-70b': 'tokens=20,spread=30,every=5ms',
  'gemini-3-flash': 'tokens=8',
};
const MODELS = Object.keys(SCRIPTS);
const CALLS_BEFORE = 21;
/** Requests to an unreachable upstream, enough to open its circuit. */
const FAILING_CALLS = 6;
const PAUSE_MS = 120;

const USERS = ['ada@example.com', 'grace.hopper@example.com', 'u-1017', 'erased@example.com', null];
const SESSIONS = ['5f0c7b1a-2d3e-4f50-8a9b-0c1d2e3f4a5b', 'nightly-import'];

function attributionOf(count: number): Record<string, string> {
  const user = USERS[count % USERS.length] ?? null;
  return user === null
    ? {}
    : {
        'x-daybook-user': user,
        'x-daybook-session': SESSIONS[count % SESSIONS.length] as string,
        ...(count % 3 === 0 ? { 'x-daybook-tags': 'team:search, nightly' } : {}),
      };
}

export async function seed(dashboard: TestDashboard, upstream: ScriptedUpstream): Promise<Seeded> {
  for (const [model, script] of Object.entries(SCRIPTS)) upstream.script(model, script);
  const { relay, administrator } = dashboard;
  const made = async <T>(reply: Promise<{ status: number; body: T }>): Promise<T> => {
    const { status, body } = await reply;
    if (status >= 300) throw new Error(`seeding failed: ${status} ${JSON.stringify(body)}`);
    return body;
  };
  await made(
    administrator.put('/api/v1/plans/team', {
      terms: {
        requests_per_minute: 600,
        tokens_per_minute: 200_000,
        concurrent_requests: 40,
        quotas: [
          { meter: 'tokens', window: 'day', limit: 120_000 },
          { meter: 'cost_nanousd', window: 'month', limit: 5_000_000_000 },
        ],
        markup: 2_000,
      },
    }),
  );
  await made(
    administrator.put('/api/v1/plans/trial', {
      terms: {
        models: ['daybook-demo*'],
        requests_per_minute: 20,
        quotas: [{ meter: 'requests', window: 'day', limit: 200, enforcement: 'hard' }],
      },
    }),
  );
  for (const [index, model] of [...MODELS, 'daybook-demo*', 'llama3.2', 'local-first'].entries()) {
    await made(
      administrator.put('/api/v1/prices', {
        model,
        base: {
          input: 250_000_000 * (index + 1),
          cache_read: 25_000_000 * (index + 1),
          output: 2_000_000_000 * (index + 1),
        },
      }),
    );
  }
  await made(
    administrator.put('/api/v1/prices', {
      model: 'gpt-5.2-mini',
      plan: 'trial',
      base: { input: 400_000_000, output: 3_000_000_000 },
    }),
  );
  const globex = await made(
    administrator.post<{ id: string }>('/api/v1/accounts', { name: 'Globex Robotics', plan: 'team' }),
  );
  await made(administrator.post('/api/v1/accounts', { name: 'Initech', plan: 'trial' }));
  for (const [name, label] of [
    ['acme', 'Acme SSO'],
    ['github', 'GitHub Enterprise'],
  ])
    await made(
      administrator.put(`/api/v1/identity-providers/${name}`, {
        label,
        issuer: `https://${name}.example.com/oauth2/default`,
        client_id: 'daybook',
        client_secret: 'the-secret',
        empty_accounts: 'suspend',
        rules: [
          { group: 'platform-engineering', role: 'administrator', account: globex.id },
          { group: null, role: 'member', account: null },
        ],
      }),
    );
  await made(
    administrator.put(`/api/v1/accounts/${globex.id}/parent`, { parent: administrator.me.account.id }),
  );
  await made(
    administrator.post(`/api/v1/accounts/${globex.id}/top-ups`, {
      amount_nanousd: 100_000_000_000,
      reference: 'Invoice 2026-104',
    }),
  );
  await made(administrator.put(`/api/v1/accounts/${administrator.me.account.id}/plan`, { plan: 'team' }));
  const member = await addMember(relay, { account: globex.id, email: 'grace@globex.example' });
  const auditor = await addMember(relay, { role: 'auditor', email: 'audit@globex.example' });

  const key = async (client: SignedInClient, name: string, more: object = {}): Promise<string> =>
    (await made(client.post<{ secret: string }>('/api/v1/keys', { name, ...more }))).secret;
  const secrets = [
    await key(administrator, 'ci-nightly'),
    await key(administrator, 'agent-laptop', {
      expires_at: new Date(Date.now() + 9 * 86_400_000).toISOString(),
    }),
    await key(member, 'web-prod', { terms: { requests_per_minute: 300 } }),
    await key(member, 'notebook'),
  ];
  for (const [name, scopes, account] of [
    ['terraform', ['accounts:write', 'keys:write', 'plans:read', 'prices:read'], null],
    ['cost-report', ['usage:read'], globex.id],
  ] as const)
    await made(administrator.post('/api/v1/management-keys', { name, scopes, account }));
  const narrow = await key(administrator, 'narrow', {
    terms: { models: ['llama-*'], requests_per_minute: 5 },
  });

  await made(
    administrator.post('/api/v1/upstreams', {
      name: 'openai',
      terms: {
        provider: 'openai',
        dialect: 'openai',
        base_url: upstream.baseUrl,
        models: ['gpt-*', 'o*'],
        network: 'private',
      },
    }),
  );
  for (const label of ['main', 'second'])
    await made(
      administrator.post('/api/v1/upstreams/openai/credentials', {
        label,
        secret: `sk-not-a-secret-${label}-0123456789`,
      }),
    );
  await made(
    administrator.post('/api/v1/upstreams', {
      name: 'ollama',
      terms: {
        provider: 'openai',
        dialect: 'ollama',
        base_url: `http://127.0.0.1:${await refusedPort()}/v1`,
        models: ['llama3.2', 'qwen3*'],
        network: 'private',
      },
    }),
  );
  await made(
    administrator.post('/api/v1/upstreams', {
      name: 'anthropic',
      terms: {
        provider: 'anthropic',
        base_url: 'https://api.anthropic.com/v1',
        models: ['claude-opus-*'],
        paused: true,
      },
    }),
  );
  await made(
    administrator.put('/api/v1/dispatch', {
      model: 'fast',
      terms: {
        targets: [
          { upstream: 'openai', model: 'gpt-5.2-mini', weight: 3 },
          { upstream: 'upstream-1', model: 'gemini-3-flash' },
          { upstream: 'ollama', model: 'llama3.2', order: 1 },
        ],
      },
    }),
  );
  await made(administrator.put('/api/v1/dispatch', { model: 'quick', terms: { alias_of: 'fast' } }));
  await made(
    administrator.put('/api/v1/dispatch', {
      model: 'local-first',
      terms: {
        targets: [
          { upstream: 'ollama', model: 'llama3.2' },
          { upstream: 'openai', model: 'gpt-5.2-mini', order: 1 },
        ],
      },
    }),
  );

  let count = 0;
  const call = (secret: string, model: string): Promise<unknown> =>
    chat({
      port: relay.port,
      key: secret,
      headers: attributionOf(count),
      body: {
        model,
        stream: true,
        messages: [
          { role: 'user', content: `Write a line about number ${count}. `.repeat(1 + (count % 20)) },
        ],
      },
    });
  const called = [...MODELS, 'gpt-5.2-mini', 'daybook-demo', 'daybook-demo-cut'];
  const pick = <T>(list: readonly T[]): T => list[count % list.length] as T;
  function callNext(): void {
    count++;
    void call(pick(secrets), pick(called));
    if (count % called.length === 0) void call(narrow, pick(['llama-4-70b', 'gpt-5.2-mini']));
  }
  async function traffic(signal: AbortSignal): Promise<void> {
    for (; !signal.aborted; await wait(PAUSE_MS)) callNext();
  }
  for (let each = 0; each < FAILING_CALLS; each++)
    await call(secrets[0] ?? '', each === 0 ? 'local-first' : 'llama3.2');
  while (count < CALLS_BEFORE) {
    callNext();
    await wait(PAUSE_MS / 6);
  }
  const inTables = async (): Promise<number> => {
    // A busy machine may reply 503.
    const { status, body } = await administrator.get<UsageReport>('/api/v1/usage');
    return status === 200 ? body.totals.requests : 0;
  };
  await until(inTables, (requests) => requests > CALLS_BEFORE / 2, 'calls in the tables', 60_000);
  await correctSome(administrator, member.me.account.id);
  for (const { account } of [administrator.me, member.me]) await eraseOne(administrator, account.id);
  await compareOneBill(dashboard);
  await addSinks(dashboard, globex.id);
  await seedHistory(relay, [
    { id: administrator.me.account.id, nanousdPerHour: 25_000_000 },
    { id: globex.id, nanousdPerHour: 8_000_000 },
  ]);
  return { member, auditor, traffic };
}

/** Corrects two requests of an account, and gives units of a quota back. */
export async function correctSome(
  administrator: SignedInClient,
  account: string,
  bill = 'bill 2026-1',
): Promise<void> {
  const { body: page } = await administrator.get<RequestPage>(
    `/api/v1/requests?account=${account}&outcome=completed`,
  );
  const replies = [];
  for (const [index, { request, cost_nanousd: cost }] of page.data.slice(0, 2).entries())
    replies.push(
      await administrator.post(`/api/v1/requests/${request}/corrections`, {
        cost_nanousd: -Math.floor((cost ?? 0) / 2),
        output_tokens: index === 0 ? -1 : undefined,
        reference: `${bill}${index}`,
        reason: 'The provider billed a cached prompt.',
      }),
    );
  replies.push(
    await administrator.post(`/api/v1/accounts/${account}/adjustments`, {
      meter: 'tokens',
      amount: 500,
      reason: 'Units of a test run.',
      adjustment: randomUUID(),
    }),
  );
  const failed = replies.find(({ status }) => status !== 200);
  if (failed !== undefined) throw new Error(`correcting failed: ${JSON.stringify(failed)}`);
}

/** Erases one end user of an account, as its pages then show it. */
async function eraseOne(administrator: SignedInClient, account: string): Promise<void> {
  const address = `/api/v1/accounts/${account}/attribution`;
  const wanted = [{ kind: 'end_user', value: 'erased@example.com' }];
  const { body } = await administrator.post<AttributionNames>(address, { wanted });
  const [{ kind, pseudonym } = { kind: 'end_user', pseudonym: '' }] = body.data;
  const erased = await administrator.post(`${address}/erase`, { kind, pseudonym });
  if (erased.status !== 200) throw new Error(`erasing failed: ${erased.status}`);
}

/** Sinks in every state, as deliveries of some days left them. */
export async function addSinks({ relay, administrator }: TestDashboard, account: string): Promise<void> {
  const url = `http://127.0.0.1:${await refusedPort()}`;
  const lago = { kind: 'lago', url, api_key: 'x', code: 'llm_usage', allow_private: true };
  const kafka = { kind: 'kafka', brokers: ['kafka-1:9093'], topic: 'spend', tls: true, allow_private: false };
  for (const [name, config, owner] of [
    ['billing', { kind: 'webhook', url, allow_private: true }, null],
    ['globex-usage', { kind: 'cloudevents', url, allow_private: true }, account],
    ['lago', lago, null],
    ['warehouse', kafka, null],
  ] as const) {
    const { status, body } = await administrator.post('/api/v1/sinks', {
      name,
      config,
      account: owner,
      after: 0,
    });
    if (status !== 200) throw new Error(`adding a sink failed: ${JSON.stringify(body)}`);
  }
  await administrator.patch('/api/v1/sinks/warehouse', { paused: true });
  const client = await connectAs(relay.store, 'owner');
  await client.query(`update daybook.sink set delivered = 48213, delivered_at = now() - interval '3 seconds'
    where name in ('billing', 'globex-usage', 'lago')`);
  await client.query(`update daybook.sink set position = daybook.head(0::int2),
    retry_at = now() + interval '1 day' where name in ('billing', 'globex-usage')`);
  await client.query(`update daybook.sink set failures = 14, failing_since = now() - interval '42 minutes',
    fault = 'http_503', retry_at = now() + interval '4 minutes', delivered_at = now() - interval '42 minutes'
    where name = 'lago'`);
  await closeClient(client);
}

/** Compares a bill that differs from the calls in several ways. */
async function compareOneBill({ relay, administrator }: TestDashboard): Promise<void> {
  const log = await relay.readLog();
  const header = 'from,kind,model,credential,request_id,part,quantity,cost';
  const lines = log.flatMap(({ event }, index) => {
    if (event.type !== 'request.settled') return [];
    const { provider_request: id, credential } = event.attempts?.at(-1) ?? event;
    if (id === undefined) return [];
    const cost = (event.upstream_cost_nanousd ?? event.cost_nanousd ?? 0) * (index % 3 === 0 ? 1.17 : 1);
    const begun = new Date(parseInt(event.request.replaceAll('-', '').slice(0, 12), 16)).toISOString();
    const name = credential ?? '';
    return [`${begun},usage,${event.model},${name},${id},,,${(Math.round(cost) / 1e9).toFixed(9)}`];
  });
  const now = new Date().toISOString();
  const more = [
    `${now},usage,gpt-5.2-mini,elsewhere,req_9f31,input,48000,0.012`,
    `${now},discount,,,,,,-0.004`,
    `${now},tax,,,,,,0.0019`,
  ];
  const { status, body } = await administrator.post<string>('/api/v1/reconciliations', {
    bill: {
      from: 'files',
      provider: 'openai',
      files: [{ name: 'bill.csv', format: 'csv', text: [header, ...lines, ...more].join('\n') }],
    },
    ...{ upstreams: [], models: {}, credentials: {}, rates: {} },
    ...{ tolerance_nanousd: 1_000, tolerance_ppm: 5 },
  });
  if (status !== 200 || !body.includes('"result"')) throw new Error(`comparing failed: ${status} ${body}`);
}
