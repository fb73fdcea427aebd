import { afterAll, beforeAll, expect, test } from 'vitest';
import { type RunningServer, startServer } from '#server/process/server.ts';
import { readConfig } from '#server/process/config.ts';
import { createLogger } from '#db/diagnostics/logger.ts';
import { deleteOldPlaces } from '#db/stored/places.ts';
import { openSession } from '../support/database.ts';
import { chat } from '../support/client.ts';
import { footprint, startRelay, type TestRelay } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';
import { declare } from '../support/upstream/upstreams-live.ts';

/** Stored responses: read and deleted at the upstream that has them, by the account that made them. */

const PATH = '/v1/responses';

let [one, other] = [undefined, undefined] as unknown as [ScriptedUpstream, ScriptedUpstream];
let relay: TestRelay;
let stranger: string;

beforeAll(async () => {
  [one, other] = await Promise.all([startUpstream({ apiKey: 'sk-one' }), startUpstream()]);
  relay = await startRelay();
  const credentials = [
    { label: 'first', secret: '${FIRST}' },
    { label: 'second', secret: '${SECOND}' },
  ];
  await declare(
    relay,
    {
      upstreams: {
        one: { base_url: one.baseUrl, routes: [PATH], credentials: [{ label: 'only', secret: '${ONE}' }] },
        other: { base_url: other.baseUrl, routes: [PATH], credentials },
      },
      models: {
        both: {
          targets: [
            { upstream: 'one', model: 's:tokens=3' },
            { upstream: 'other', model: 's:tokens=3' },
          ],
        },
        pair: { targets: [{ upstream: 'other', model: 's:tokens=3' }] },
      },
    },
    { ONE: 'sk-one', FIRST: 'sk-first', SECOND: 'sk-second' },
  );
  await relay.createAccount('stranger');
  stranger = (await relay.createKey({ account: 'stranger' })).secret;
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await Promise.all([one?.close(), other?.close()]);
});

/** Makes a response. @returns its id. */
async function create(model: string, session: string, more: object = {}): Promise<string> {
  const { port, key } = relay;
  const headers = { 'x-daybook-session': session };
  const reply = await chat({ port, key, path: PATH, body: { model, input: 'hi', ...more }, headers });
  expect(reply.status).toBe(200);
  const [id] = /resp_[\w-]+/.exec(reply.body.toString()) ?? [];
  return id as string;
}

type Answer = { status: number; body: Record<string, unknown> & { error?: Record<string, unknown> } };

async function send(method: string, path: string, key = relay.key, port = relay.port): Promise<Answer> {
  const reply = await fetch(`http://127.0.0.1:${port}${PATH}/${path}`, {
    method,
    headers: { authorization: `Bearer ${key}` },
  });
  return { status: reply.status, body: (await reply.json()) as Answer['body'] };
}

/** Continues a response. */
async function goOn(
  id: string,
  key: string,
  model = 'both',
): Promise<{ status: number | null; body: Answer['body'] }> {
  const body = { model, input: 'and then?', previous_response_id: id };
  const reply = await chat({ port: relay.port, key, path: PATH, body });
  return { status: reply.status, body: JSON.parse(reply.body.toString()) as Answer['body'] };
}

test('a stored response is read from the upstream that made it, streamed or not', async () => {
  for (const more of [{}, { stream: true }])
    for (const session of ['a', 'b', 'c', 'd', 'e', 'f']) {
      const id = await create('both', session, more);
      expect(await send('GET', id)).toMatchObject({ status: 200, body: { id, status: 'completed' } });
      const items = await send('GET', `${id}/input_items?order=asc`);
      expect(items).toMatchObject({ status: 200, body: { object: 'list', data: [{ role: 'user' }] } });
    }
  const served = [one, other].map(({ ledger }) => ledger.visits.filter(({ method }) => method === 'GET'));
  expect(served.every((visits) => visits.length > 0)).toBe(true);
  expect(
    served.flat().some(({ path, query }) => path.endsWith('/input_items') && query === 'order=asc'),
  ).toBe(true);
});

test('a stored response is read with the credential that made it', async () => {
  for (const session of ['a', 'b', 'c', 'd', 'e', 'f']) {
    const id = await create('pair', session);
    await send('GET', id);
    const made = other.ledger.attempts
      .at(-1)
      ?.headers.find(([name]) => name.toLowerCase() === 'authorization');
    expect(other.ledger.visits.at(-1)).toMatchObject({ method: 'GET', authorization: made?.[1] });
  }
  const used = new Set(other.ledger.visits.map(({ authorization }) => authorization));
  expect(used).toEqual(new Set(['Bearer sk-first', 'Bearer sk-second']));
});

test('a response is continued with the credential that made it, whatever the session', async () => {
  for (const session of ['a', 'b', 'c', 'd', 'e', 'f']) {
    const id = await create('pair', session);
    const made = other.ledger.attempts.at(-1)?.headers;
    await create('pair', `${session} goes on`, { previous_response_id: id, stream: true });
    const authorization = (headers: typeof made) =>
      headers?.find(([name]) => name.toLowerCase() === 'authorization')?.[1];
    expect(authorization(other.ledger.attempts.at(-1)?.headers)).toBe(authorization(made));
  }
});

test('a response that another upstream holds than the model has is not continued', async () => {
  const ids = await Promise.all(['a', 'b', 'c', 'd', 'e', 'f'].map((session) => create('both', session)));
  const statuses = await Promise.all(ids.map(async (id) => (await goOn(id, relay.key, 'pair')).status));
  expect(new Set(statuses)).toEqual(new Set([200, 400]));
});

test("another account's response, an unknown or a deleted one is not continued", async () => {
  const [id, deleted] = [await create('both', 'a'), await create('both', 'a')];
  await send('DELETE', deleted);
  const before = await footprint(relay, one);
  for (const [previous, key] of [
    [id, stranger],
    ['resp_unknown', relay.key],
    [deleted, relay.key],
    ['no id', relay.key],
  ] as const)
    expect(await goOn(previous, key)).toMatchObject({
      status: 400,
      body: { error: { code: 'previous_response_not_found', param: 'previous_response_id' } },
    });
  expect(await footprint(relay, one)).toEqual(before);
  expect((await goOn(id, relay.key)).status).toBe(200);
});

test("another account's response is not found, whatever is asked of it", async () => {
  const id = await create('both', 'a');
  const before = await footprint(relay, one);
  for (const [method, path] of [
    ['GET', id],
    ['GET', `${id}/input_items`],
    ['POST', `${id}/cancel`],
    ['DELETE', id],
  ] as const) {
    const { status, body } = await send(method, path, stranger);
    expect({ status, code: body.error?.['code'], type: body.error?.['type'] }).toEqual({
      status: 404,
      code: 'response_not_found',
      type: 'invalid_request_error',
    });
  }
  expect(await footprint(relay, one)).toEqual(before);
  expect((await send('GET', id)).status).toBe(200);
});

test('a request for a stored response needs a key', async () => {
  const id = await create('both', 'a');
  expect((await send('GET', id, 'dbk_wrong')).status).toBe(401);
});

test('a deleted response is not found', async () => {
  const id = await create('both', 'a');
  expect(await send('DELETE', id)).toEqual({ status: 200, body: { id, object: 'response', deleted: true } });
  for (const method of ['GET', 'DELETE']) expect((await send(method, id)).status).toBe(404);
});

test('a response that the provider does not store has no place', async () => {
  const id = await create('both', 'a', { store: false });
  expect((await send('GET', id)).status).toBe(404);
});

test('a response is found by another server, and after the one that made it has ended', async () => {
  const id = await create('both', 'a');
  await relay.stop();
  let server: RunningServer | undefined;
  try {
    const env = {
      PORT: '0',
      DAYBOOK_DATA: relay.dataDir,
      DATABASE_URL: (relay.store as { url?: string }).url,
    };
    server = await startServer(readConfig(env), createLogger('silent'));
    const port = Number(new URL(server.baseUrl).port);
    expect(await send('GET', id, relay.key, port)).toMatchObject({ status: 200, body: { id } });
  } finally {
    await server?.stop();
  }
});

test('places are deleted after 30 days', async () => {
  const client = await openSession(relay.store.config('owner'));
  try {
    await client.query(`insert into daybook.stored_object (account, id, kind, upstream, created_at) values
      ('Account1', 'resp_old', 1, 'one', now() - interval '31 days'),
      ('Account1', 'resp_new', 1, 'one', now() - interval '29 days')`);
    expect(await deleteOldPlaces(client)).toBe(1);
    const { rows } = await client.query<{ id: string }>(
      `select id from daybook.stored_object where account = 'Account1'`,
    );
    expect(rows).toEqual([{ id: 'resp_new' }]);
  } finally {
    await client.end();
  }
});
