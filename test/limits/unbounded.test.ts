import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { PlanTerms } from '#db/events/events.ts';
import { RELAYED_ROUTES, type RelayedRoute } from '#db/limits/limits.ts';
import { errorCodeOf } from '../support/faults.ts';
import { type Fleet, startFleet } from '../support/fleet.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** Requests whose usage can't be bounded: rejected under a hard quota, and relayed otherwise. */

const LIMIT = 20_000;
/** The upstream reads more than was sent, as one that looks up stored content does. */
const MODEL = 's:tokens=3,prompt=50000';

let upstream: ScriptedUpstream;
let fleet: Fleet;

beforeAll(async () => {
  upstream = await startUpstream();
  fleet = await startFleet({
    instances: 1,
    upstreams: [{ baseUrl: upstream.baseUrl, name: 'all', models: ['s:*'], routes: RELAYED_ROUTES }],
  });
});

afterAll(async () => {
  await fleet?.[Symbol.asyncDispose]();
  await upstream?.close();
});

const HARD: PlanTerms = {
  quotas: [{ meter: 'tokens', window: 'month', limit: LIMIT, enforcement: 'hard' }],
};
const TEXT = [{ role: 'user', content: 'hi' }];
const BODIES: Readonly<Record<RelayedRoute, object>> = {
  '/v1/chat/completions': { messages: TEXT, max_completion_tokens: 9 },
  '/v1/completions': { prompt: 'hi', max_tokens: 9 },
  '/v1/embeddings': { input: 'hi' },
  '/v1/responses': { input: TEXT, max_output_tokens: 9 },
  '/v1/messages': { messages: TEXT, max_tokens: 9 },
};

const UNBOUNDED: [RelayedRoute, object, string][] = [
  ['/v1/messages', { thread: { type: 'continue', previous_message_id: 'msg_1' } }, 'thread'],
  ['/v1/messages', { tools: [{ type: 'web_search_20250305', name: 'web_search' }] }, 'tools[0].type'],
  ['/v1/messages', { mcp_servers: [{ type: 'url', url: 'https://example.com' }] }, 'mcp_servers'],
  ['/v1/messages', { container: 'c' }, 'container'],
  ['/v1/responses', { input: [{ type: 'item_reference', id: 'msg_1' }, ...TEXT] }, 'input[0].type'],
  ['/v1/responses', { input: [{ id: 'msg_1' }, ...TEXT] }, 'input[0].type'],
  ['/v1/responses', { tools: [{ type: 'web_search' }] }, 'tools[0].type'],
  ['/v1/responses', { tools: [{ type: 'file_search', vector_store_ids: ['v'] }] }, 'tools[0].type'],
  ['/v1/responses', { previous_response_id: 'resp_1' }, 'previous_response_id'],
  ['/v1/responses', { conversation: 'conv_1' }, 'conversation'],
  ['/v1/responses', { prompt: { id: 'pmpt_1' } }, 'prompt'],
  ['/v1/chat/completions', { web_search_options: {} }, 'web_search_options'],
  ['/v1/chat/completions', { plugins: [{ id: 'web' }] }, 'plugins'],
  ['/v1/completions', { prompt_embeds: 'x' }, 'prompt_embeds'],
  ['/v1/embeddings', { messages: TEXT }, 'messages'],
];

describe('under a hard quota', () => {
  let secret = '';
  beforeAll(async () => {
    ({ secret } = await fleet.tenant('hard', HARD));
  });

  test.each(UNBOUNDED)('%s %j is a 400 that names the field, and is not sent', async (path, more, param) => {
    const before = upstream.ledger.attempts.length;
    const body = { model: MODEL, ...BODIES[path], ...more };
    const reply = await fleet.chat(0, { key: secret, path, body });
    expect([reply.status, errorCodeOf(reply)]).toEqual([400, 'invalid_value']);
    expect(JSON.parse(reply.body.toString())).toMatchObject({ error: { param } });
    expect(upstream.ledger.attempts.length).toBe(before);
  });

  test.each(RELAYED_ROUTES)('%s: a request of its own content is relayed', async (path) => {
    const reply = await fleet.chat(0, { key: secret, path, body: { model: 's:tokens=3', ...BODIES[path] } });
    expect(reply.status).toBe(200);
  });
});

test('a hard limit that a provider exceeds all the same shows its true overdraft', async () => {
  const { secret } = await fleet.tenant('exceeded', HARD);
  const path = '/v1/responses';
  const reply = await fleet.chat(0, { key: secret, path, body: { model: MODEL, ...BODIES[path] } });
  expect(reply.status).toBe(200);
  const { limits } = await fleet.settledUsage(secret);
  expect(limits).toMatchObject([
    { limit: LIMIT, used: 50_003, remaining: 0, overdraft: 50_003 - LIMIT, overdraft_max: 0 },
  ]);
});

test('without a hard quota each of them is relayed', async () => {
  for (const [path, more] of UNBOUNDED) {
    const reply = await fleet.chat(0, { path, body: { model: MODEL, ...BODIES[path], ...more } });
    expect([path, more, reply.status]).toEqual([path, more, 200]);
  }
});
