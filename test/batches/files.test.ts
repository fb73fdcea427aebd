import { afterAll, beforeAll, expect, test } from 'vitest';
import type OpenAI from 'openai';
import { APIError, toFile } from 'openai';
import { clientOf, inputOf, requestsOf, upload } from '../support/batches/input.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** Files: uploaded to the upstream of their model, and found by the account that made them alone. */

let [one, other] = [undefined, undefined] as unknown as [ScriptedUpstream, ScriptedUpstream];
let relay: TestRelay;
let client: OpenAI;
let stranger: OpenAI;

beforeAll(async () => {
  [one, other] = await Promise.all([startUpstream({ apiKey: 'sk-one-and-only-secret' }), startUpstream()]);
  const routes = ['/v1/chat/completions'];
  relay = await startRelay({
    upstreams: [
      { name: 'one', baseUrl: one.baseUrl, models: ['m-*'], routes, apiKey: 'sk-one-and-only-secret' },
      { name: 'other', baseUrl: other.baseUrl, models: ['n-*'], routes },
    ],
    // Far less than the largest file.
    env: {
      MAX_BODY_MB: '1',
      MAX_BUFFERED_MB: '4',
      MAX_BUFFERED_MB_PER_ACCOUNT: '4',
      MAX_BUFFERED_MB_PER_KEY: '2',
    },
  });
  client = clientOf(relay.baseUrl, relay.key);
  await relay.createAccount('stranger');
  stranger = clientOf(relay.baseUrl, (await relay.createKey({ account: 'stranger' })).secret);
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await Promise.all([one?.close(), other?.close()]);
});

const refusal = async (promise: Promise<unknown>): Promise<APIError> => {
  const error: unknown = await promise.then(
    () => null,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(APIError);
  return error as APIError;
};

test('a file goes to the upstream of its first line, and comes back byte for byte', async () => {
  const text = inputOf(requestsOf(500), 'n-small');
  const file = await upload(client, text);
  expect(file).toMatchObject({ object: 'file', purpose: 'batch', bytes: Buffer.byteLength(text) });
  expect(other.ledger.visits.at(-1)).toMatchObject({ method: 'POST', path: '/v1/files' });
  expect(await client.files.retrieve(file.id)).toMatchObject({ id: file.id });
  expect(await (await client.files.content(file.id)).text()).toBe(text);
});

test('a form may have the purpose before the file', async () => {
  const file = await toFile(Buffer.from(inputOf([{}], 'm-small')), 'in.jsonl');
  const made = await client.files.create({ purpose: 'batch', file });
  expect(one.ledger.visits.at(-1)).toMatchObject({ method: 'POST', path: '/v1/files' });
  expect(await client.files.delete(made.id)).toMatchObject({ deleted: true });
  expect((await refusal(client.files.retrieve(made.id))).status).toBe(404);
});

test('an upload far larger than the buffers of its key passes through', async () => {
  const content = 'x'.repeat(100_000);
  const body = { messages: [{ role: 'user', content }], max_completion_tokens: 5 };
  const text = inputOf(
    Array.from({ length: 120 }, () => ({ body })),
    'n-large',
  );
  const file = await upload(client, text);
  expect(file.bytes).toBe(Buffer.byteLength(text));
  let bytes = 0;
  const reply = await client.files.content(file.id);
  for await (const chunk of reply.body as unknown as AsyncIterable<Uint8Array>) bytes += chunk.length;
  expect(bytes).toBe(file.bytes);
});

test("another account's file is a 404, read, downloaded or deleted, and in no list", async () => {
  const file = await upload(client, inputOf([{}], 'n-small'));
  for (const work of [
    () => stranger.files.retrieve(file.id),
    () => stranger.files.content(file.id),
    () => stranger.files.delete(file.id),
  ])
    expect(await refusal(work())).toMatchObject({ status: 404, code: 'file_not_found' });
  expect((await stranger.files.list()).data).toEqual([]);
  expect((await client.files.list()).data.map(({ id }) => id)).toContain(file.id);
});

test('a list has an account’s files, newest first, in pages', async () => {
  await relay.createAccount('lister');
  const { secret } = await relay.createKey({ account: 'lister' });
  const lister = clientOf(relay.baseUrl, secret);
  const made: string[] = [];
  for (let index = 0; index < 5; index++)
    made.push((await upload(lister, inputOf([{ id: `only-${index}` }], 'n-small'))).id);
  const listed: string[] = [];
  for await (const { id } of lister.files.list({ limit: 2 })) listed.push(id);
  expect(listed).toEqual(made.toReversed());
});

test.each<[string, string, 'batch' | 'assistants', string]>([
  ['of another purpose', inputOf([{}], 'n-small'), 'assistants', '"purpose"'],
  ['whose first line is no request', 'hello\n', 'batch', 'Line 1 of the file'],
  ['of a model that no upstream has', inputOf([{}], 'unknown'), 'batch', 'No upstream'],
  ['without a line', '', 'batch', 'is empty'],
])('a file %s is refused', async (_, text, purpose, message) => {
  const file = await toFile(Buffer.from(text), 'in.jsonl');
  const error = await refusal(client.files.create({ file, purpose }));
  expect(error.message).toContain(message);
  expect([400, 404]).toContain(error.status);
});

test('an upload that is no form is a 415, and a wrong key a 401', async () => {
  const url = `${relay.baseUrl}/files`;
  const authorization = `Bearer ${relay.key}`;
  const json = { authorization, 'content-type': 'application/json' };
  expect((await fetch(url, { method: 'POST', headers: json, body: '{}' })).status).toBe(415);
  expect((await refusal(upload(clientOf(relay.baseUrl, 'dbk_wrong'), 'x'))).status).toBe(401);
});
