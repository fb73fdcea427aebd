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
    upstreams: [{ baseUrl: upstream.baseUrl, name: 'all', models: ['*'], routes: RELAYED_ROUTES }],
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
  '/v1/moderations': { input: 'hi' },
  '/v1/rerank': { query: 'hi', documents: ['hi'] },
  '/v1/images/generations': { prompt: 'hi' },
  '/v1/images/edits': { prompt: 'hi' },
  '/v1/images/variations': {},
  '/v1/audio/transcriptions': {},
  '/v1/audio/translations': {},
  '/v1/audio/speech': { input: 'hi', voice: 'alloy' },
};
/** A query is read again with each document, and images have a price that no limit bounds. */
const NEVER_BOUNDED: readonly RelayedRoute[] = ['/v1/rerank', '/v1/images/generations', '/v1/audio/speech'];
/** Forms have tests of their own, in test/media/. */
const FORMS = /edits|variations|transcriptions|translations/;
const BOUNDED = RELAYED_ROUTES.filter((route) => !NEVER_BOUNDED.includes(route) && !FORMS.test(route));

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
  ['/v1/moderations', { messages: TEXT }, 'messages'],
  ['/v1/rerank', {}, 'query'],
  ['/v1/images/generations', {}, 'prompt'],
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

  test.each(BOUNDED)('%s: a request of its own content is relayed', async (path) => {
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

/** Dollars in nano-dollars. */
const DOLLAR = 1_000_000_000;
const UNIT_PRICES = { base: { input: 1_000, output: 1_000, web_search: DOLLAR / 100, media_hour: DOLLAR } };
const CALLERS = 8;

describe('units with a price', () => {
  beforeAll(async () => {
    for (const model of ['sonar-pro', 'gemini-2.5-flash-image', 'voice', 'tools', 's:*', '@preset/mine'])
      await fleet.control((control) => control.setPrice(model, UNIT_PRICES));
    upstream.script('sonar-pro', 'tokens=3,searches=40');
    upstream.script('@preset/mine', 'tokens=3,searches=40');
    upstream.script('voice', 'tokens=3,seconds=3600,every=5ms');
    upstream.script('tools', 'tokens=3,searches=4,every=5ms');
  });
  const costing = (dollars: number, enforcement: 'soft' | 'hard'): PlanTerms => ({
    quotas: [{ meter: 'cost_nanousd', window: 'month', limit: dollars * DOLLAR, enforcement }],
  });

  test.each(['sonar-pro', 'gemini-2.5-flash-image', '@preset/mine'])(
    '%s is a 400 under a hard quota, and is not sent',
    async (model) => {
      const { secret } = await fleet.tenant(`hard-${model.length}`, costing(0.2, 'hard'));
      const before = upstream.ledger.attempts.length;
      const path = '/v1/chat/completions';
      const reply = await fleet.chat(0, { key: secret, path, body: { model, ...BODIES[path] } });
      expect([reply.status, errorCodeOf(reply)]).toEqual([400, 'invalid_value']);
      expect(JSON.parse(reply.body.toString())).toMatchObject({ error: { param: 'model' } });
      expect(upstream.ledger.attempts.length).toBe(before);
    },
  );

  const audio = { type: 'input_audio', input_audio: { data: 'https://example.com/a.mp3' } };
  const SEARCH = { tools: [{ type: 'web_search_20250305', name: 'web_search', max_uses: 4 }] };
  test.each<[string, RelayedRoute, object, PlanTerms, number]>([
    [
      'an hour of audio for each recording, under a hard quota',
      '/v1/chat/completions',
      { model: 'voice', messages: [{ role: 'user', content: [audio] }], max_tokens: 9 },
      costing(2.5, 'hard'),
      2,
    ],
    [
      'the searches that Anthropic is allowed, under a soft quota',
      '/v1/messages',
      { model: 'tools', ...BODIES['/v1/messages'], ...SEARCH },
      costing(0.1, 'soft'),
      2,
    ],
    [
      'the searches that OpenAI is allowed, under a soft quota',
      '/v1/responses',
      { model: 'tools', ...BODIES['/v1/responses'], tools: [{ type: 'web_search' }], max_tool_calls: 4 },
      costing(0.1, 'soft'),
      2,
    ],
  ])('reserve %s, so that calls at once stay within the limit', async (_, path, body, terms, admitted) => {
    const { secret } = await fleet.tenant(`units-${path.split('/').at(-1)}`, terms);
    const replies = await Promise.all(
      Array.from({ length: CALLERS }, () => fleet.chat(0, { key: secret, path, body })),
    );
    const statuses = replies.map(({ status }) => status);
    expect(statuses.filter((status) => status === 200).length).toBe(admitted);
    expect(statuses.filter((status) => status === 429).length).toBe(CALLERS - admitted);
    const { limits } = await fleet.settledUsage(secret);
    expect(limits[0]?.overdraft).toBe(0);
  });
});

test('without a hard quota each of them is relayed', async () => {
  for (const [path, more] of UNBOUNDED) {
    const reply = await fleet.chat(0, { path, body: { model: MODEL, ...BODIES[path], ...more } });
    // A response that the account doesn't have is continued nowhere.
    const status = 'previous_response_id' in more ? 400 : 200;
    expect([path, more, reply.status]).toEqual([path, more, status]);
  }
});
