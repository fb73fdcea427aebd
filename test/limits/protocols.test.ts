import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { PlanTerms } from '#db/events/events.ts';
import type { Protocol } from '#server/protocols/protocol.ts';
import { type Fleet, startFleet, type Tenant } from '../support/fleet.ts';
import { matrixUpstreams, requestOf } from '../support/protocols/pairs.ts';
import { PAIRS } from '../support/protocols/read-replies.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** Hard quotas with clients of each protocol, at upstreams that have one protocol each. */

const LIMIT = 20_000;
const HARD: PlanTerms = {
  quotas: [{ meter: 'tokens', window: 'month', limit: LIMIT, enforcement: 'hard' }],
};

let upstream: ScriptedUpstream;
let fleet: Fleet;
let tenant: Tenant;
let models = 0;

beforeAll(async () => {
  upstream = await startUpstream();
  fleet = await startFleet({ instances: 1, upstreams: matrixUpstreams(upstream) });
  tenant = await fleet.tenant('hard', HARD);
});
afterAll(async () => {
  await fleet?.[Symbol.asyncDispose]();
  await upstream?.close();
});

function modelOf(protocol: Protocol): string {
  const model = `${protocol}-${models++}`;
  upstream.script(model, 'tokens=3');
  return model;
}

type Sent = Record<string, unknown> & { generationConfig?: { maxOutputTokens?: number } };
/** The limit on the reply that the upstream was last asked to keep. */
function sentLimit(): number | undefined {
  const sent = JSON.parse(upstream.ledger.requestBody(upstream.ledger.attempts.length).toString()) as Sent;
  const limit = sent['max_completion_tokens'] ?? sent['max_tokens'] ?? sent['max_output_tokens'];
  return (limit as number | undefined) ?? sent.generationConfig?.maxOutputTokens;
}

describe.each(PAIRS)('a client of $client at an upstream of $upstream', (pair) => {
  test.each([false, true])('has its reply limited to what the quota has left: %s', async (isStreamed) => {
    const [path, body] = requestOf(pair.client, modelOf(pair.upstream), isStreamed);
    const reply = await fleet.chat(0, { key: tenant.secret, path, body });
    expect(reply.status).toBe(200);
    expect(sentLimit()).toBeGreaterThan(0);
    expect(sentLimit()).toBeLessThan(LIMIT);
  });
});

describe("a client of Gemini's API", () => {
  const generate = (body: object): ReturnType<Fleet['chat']> => {
    const [path] = requestOf('gemini', modelOf('gemini'), false);
    const contents = [{ role: 'user', parts: [{ text: 'hi' }] }];
    return fleet.chat(0, { key: tenant.secret, path, body: { contents, ...body } });
  };

  test.each([
    ['tools[0].googleSearch', { tools: [{ googleSearch: {} }] }],
    ['cachedContent', { cachedContent: 'cachedContents/1' }],
    ['generationConfig.max_output_tokens', { generationConfig: { max_output_tokens: 9 } }],
    ['generationConfig.responseModalities', { generationConfig: { responseModalities: ['IMAGE'] } }],
  ])('is told that nothing bounds %s, and nothing is sent', async (field, body) => {
    const before = upstream.ledger.attempts.length;
    const reply = await generate(body);
    const { error } = JSON.parse(reply.body.toString()) as { error: { status: string; message: string } };
    expect([reply.status, error.status]).toEqual([400, 'INVALID_ARGUMENT']);
    expect(error.message).toContain(field);
    expect(upstream.ledger.attempts.length).toBe(before);
  });

  test.each<[string, object | null, number]>([
    ['no settings', null, 100],
    ['settings without a limit', { topP: 1 }, 100],
    ['a limit of its own', { maxOutputTokens: 12 }, 12],
  ])('keeps the rest of its settings: %s', async (_, generationConfig, most) => {
    await generate({ generationConfig });
    const limit = sentLimit() ?? 0;
    if (most === 12) expect(limit).toBe(12);
    else expect(limit).toBeGreaterThan(most);
    const sent = JSON.parse(upstream.ledger.requestBody(upstream.ledger.attempts.length).toString()) as Sent;
    expect(sent.generationConfig).toEqual({ ...generationConfig, maxOutputTokens: limit });
  });

  test('reserves each candidate', async () => {
    await generate({ generationConfig: { candidateCount: 4 } });
    expect(sentLimit()).toBeLessThanOrEqual(LIMIT / 4);
  });
});
