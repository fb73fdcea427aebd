import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startRelay, type TestRelay } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';
import { declare } from '../support/upstream/upstreams-live.ts';

/** The list of models and each of them, for the clients that ask. */

let upstream: ScriptedUpstream;
let relay: TestRelay;
const LISTED = ['daybook-demo', 'daybook-demo-cut', 'daybook-demo-fail', 'lab/large', 'ok', 'other'];

beforeAll(async () => {
  upstream = await startUpstream();
  relay = await startRelay({
    upstreams: [{ baseUrl: upstream.baseUrl, name: 'all', models: ['ok', 'other', 'lab/large', 's:*'] }],
  });
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

const openai = (key = relay.key): OpenAI =>
  new OpenAI({ baseURL: relay.baseUrl, apiKey: key, maxRetries: 0 });
const anthropic = (key = relay.key): Anthropic =>
  new Anthropic({ baseURL: relay.baseUrl.replace(/\/v1$/, ''), apiKey: key, maxRetries: 0 });

const UNCHANGED = { drop: [], clear: false, expiresAt: undefined, windows: 'keep' } as const;
/** A key that may use these models only. */
async function keyFor(models: string[]): Promise<string> {
  const { id, secret } = await relay.createKey();
  await relay.control((control) => control.restrictKey(id, { ...UNCHANGED, set: { models } }));
  return secret;
}

describe("OpenAI's client", () => {
  test('lists models, and retrieves each of them by its name', async () => {
    const list = await Array.fromAsync(openai().models.list());
    expect(list.map(({ id }) => id)).toEqual(LISTED);
    for (const model of list) expect(await openai().models.retrieve(model.id)).toEqual(model);
  });

  test('retrieves a model that a pattern serves', async () => {
    expect(await openai().models.retrieve('s:tokens=6')).toMatchObject({ id: 's:tokens=6', owned_by: 'all' });
  });

  test('gets the error of a call for a model that it could not call', async () => {
    await expect(openai().models.retrieve('nobody-has-it')).rejects.toMatchObject({
      status: 404,
      code: 'model_not_found',
      param: 'model',
    });
    await expect(openai(await keyFor(['ok'])).models.retrieve('other')).rejects.toMatchObject({
      status: 403,
      code: 'model_not_permitted',
    });
    await expect(openai('dbk_wrong').models.retrieve('ok')).rejects.toMatchObject({ status: 401 });
  });
});

describe("Anthropic's client", () => {
  test.for([1, 2, 5, 100])('lists models in pages of %i, forward', async (limit) => {
    const names: string[] = [];
    for await (const { id, type } of anthropic().models.list({ limit })) {
      expect(type).toBe('model');
      names.push(id);
    }
    expect(names).toEqual(LISTED);
  });

  test('and backward', async () => {
    const page = await anthropic().models.list({ limit: 2, before_id: 'ok' });
    expect(page).toMatchObject({ has_more: true, first_id: 'daybook-demo-fail', last_id: 'lab/large' });
    const first = await anthropic().models.list({ limit: 2, before_id: 'daybook-demo-fail' });
    expect(first).toMatchObject({ has_more: false, first_id: 'daybook-demo', last_id: 'daybook-demo-cut' });
  });

  test('retrieves a model with its x-api-key', async () => {
    expect(await anthropic().models.retrieve('lab/large')).toMatchObject({ id: 'lab/large', type: 'model' });
  });

  test("gets errors in Anthropic's format", async () => {
    await expect(anthropic().models.retrieve('nobody-has-it')).rejects.toMatchObject({
      status: 404,
      error: { type: 'error', error: { type: 'not_found_error' } },
    });
    await expect(anthropic().models.list({ after_id: 'gone' })).rejects.toMatchObject({ status: 400 });
    await expect(anthropic().models.list({ limit: 0 })).rejects.toMatchObject({ status: 400 });
    await expect(anthropic('dbk_wrong').models.list()).rejects.toMatchObject({
      status: 401,
      error: { type: 'error', error: { type: 'authentication_error' } },
    });
  });
});

describe.each(['v1', 'v1beta'])("Google's clients, by %s", (version) => {
  type Listed = { models: { name: string; supportedGenerationMethods: string[] }[]; nextPageToken?: string };
  const get = async (path: string, key = relay.key): Promise<{ status: number; body: unknown }> => {
    const reply = await fetch(`http://127.0.0.1:${relay.port}/${version}/models${path}`, {
      headers: { 'x-goog-api-key': key },
    });
    return { status: reply.status, body: await reply.json() };
  };

  test.for([1, 4, 100])('list models in pages of %i', async (pageSize) => {
    const names: string[] = [];
    for (let token: string | undefined = ''; token !== undefined;) {
      const query = new URLSearchParams({ pageSize: String(pageSize), ...(token && { pageToken: token }) });
      const { models, nextPageToken } = (await get(`?${String(query)}`)).body as Listed;
      expect(models.length).toBeLessThanOrEqual(pageSize);
      names.push(...models.map(({ name }) => name));
      token = nextPageToken;
    }
    expect(names).toEqual(LISTED.map((name) => `models/${name}`));
  });

  test('get a model by its name, with the methods that it can be called by', async () => {
    const methods = {
      supportedGenerationMethods: [
        'generateContent',
        'streamGenerateContent',
        'countTokens',
        'embedContent',
        'batchEmbedContents',
      ],
    };
    for (const name of ['lab/large', 's:tokens=6'])
      expect(await get(`/${name}`)).toMatchObject({
        status: 200,
        body: { name: `models/${name}`, ...methods },
      });
  });

  test("get errors in Gemini's format", async () => {
    for (const [path, key, status, name] of [
      ['/nobody-has-it', relay.key, 404, 'NOT_FOUND'],
      ['?pageToken=gone', relay.key, 400, 'INVALID_ARGUMENT'],
      ['?pageSize=0', relay.key, 400, 'INVALID_ARGUMENT'],
      ['', 'dbk_wrong', 401, 'UNAUTHENTICATED'],
      ['/other', await keyFor(['ok']), 403, 'PERMISSION_DENIED'],
    ] as const)
      expect(await get(path, key)).toMatchObject({ status, body: { error: { code: status, status: name } } });
  });

  test('are told to send the key in its header', async () => {
    const { status, body } = await get(`?key=${relay.key}`);
    expect([status, body]).toMatchObject([
      400,
      { error: { message: expect.stringContaining('x-goog-api-key') as string } },
    ]);
    expect(JSON.stringify(body)).not.toContain(relay.key);
  });
});

test('an alias is listed where the model behind it may be used, whatever its own name', async () => {
  await declare(relay, {
    upstreams: { more: { base_url: upstream.baseUrl, models: ['behind'] } },
    models: { fast: { alias_of: 'behind' } },
  });
  const names = async (models: string[]): Promise<string[]> =>
    (await Array.fromAsync(openai(await keyFor(models)).models.list())).map(({ id }) => id);
  expect(await names(['behind'])).toEqual(['behind', 'fast']);
  expect(await names(['fast'])).toEqual([]);
  await expect(openai(await keyFor(['fast'])).models.retrieve('fast')).rejects.toMatchObject({ status: 403 });
});
