import { readFileSync } from 'node:fs';
import path from 'node:path';
import { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { chat, type ChatReply } from '../support/client.ts';
import { openRequests } from '../support/faults.ts';
import { exchange } from '../support/exchange.ts';
import { CHAT, rawRequest } from '../support/wire/raw-http.ts';
import { changeControl, makePlace, openLog, type Place, until } from '../support/relay.ts';
import { startReplay, type ReplayUpstream } from '../support/upstream/replay.ts';
import { type ServerProcess, spawnServer } from '../support/servers/server-process.ts';
import { refusedPort, type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';
import { INNER_HOST } from '../support/upstream/heads.ts';

/** Promise P9: no secret appears in anything that the server writes, in any encoding. */

const PROMPT = 'canary-prompt-7f3a9c';
const REPLY = 'canary-reply-51be02';
const CREDENTIAL = 'sk-canary-credential-90d1aa';

let upstream: ScriptedUpstream;
let replay: ReplayUpstream;
let place: Place;
let server: ServerProcess;
let secrets: Record<string, string>;
const replies: ChatReply[] = [];
const rawReplies: Buffer[] = [];

beforeAll(async () => {
  upstream = await startUpstream({ apiKey: CREDENTIAL });
  replay = await startReplay();
  const upstreams = [
    { baseUrl: upstream.baseUrl, apiKey: CREDENTIAL, models: ['s:*', 'ok'] },
    { baseUrl: replay.baseUrl, name: 'replay', apiKey: CREDENTIAL, models: ['replay'] },
    {
      baseUrl: `http://127.0.0.1:${await refusedPort()}/v1`,
      name: 'nobody',
      apiKey: CREDENTIAL,
      models: ['nobody'],
    },
    { baseUrl: upstream.baseUrl, name: 'refusing', apiKey: `${CREDENTIAL}-wrong`, models: ['gpt-refused'] },
  ];
  place = await makePlace({ upstreams });
  server = await spawnServer({ ...place.env, LOG_LEVEL: 'trace', UPSTREAM_FIRST_BYTE_TIMEOUT_MS: '500' });
  const store = place.store as NonNullable<typeof place.store>;
  const { secret } = await changeControl(store, place.dataDir, (control, pepper) =>
    control.createKey(pepper, { account: 'first', name: 'canary', expiresAt: null }),
  );
  secrets = {
    'the key': secret,
    'the random part of the key': secret.slice(13, 40),
    "the upstream's credential": CREDENTIAL,
    'the prompt': PROMPT,
    'the reply': REPLY,
    "the database's password": /:([^:@]+)@/.exec(place.env['DATABASE_URL'] ?? '')?.[1] ?? '',
    'the pepper': readFileSync(path.join(place.dataDir, 'pepper'), 'utf8').trim(),
  };
  await until(
    () => ask('ok'),
    ({ status }) => status === 200,
    'the key',
  );
  await misbehave();
});

afterAll(async () => {
  await server?.stop();
  await upstream?.close();
  await replay?.[Symbol.asyncDispose]();
  await place?.[Symbol.asyncDispose]();
});

async function ask(model: string, more: object = {}, key = secrets['the key'] ?? ''): Promise<ChatReply> {
  const body = { model, messages: [{ role: 'user', content: PROMPT }], metadata: { note: PROMPT }, ...more };
  const reply = await chat({ port: server.port, key, body });
  replies.push(reply);
  return reply;
}

/** Every path on which something could be written down. */
async function misbehave(): Promise<void> {
  const key = secrets['the key'] ?? '';
  const error = {
    error: {
      message: `Bad: "${CREDENTIAL}" Bearer ${CREDENTIAL} at http://${INNER_HOST}/v1 said ${upstream.url}`,
      param: null,
    },
  };
  const bodies = [
    JSON.stringify(error),
    '<html>'.padEnd(100_000, CREDENTIAL),
    `{"choices":[],"text":"${REPLY}"`,
  ];
  for (const [index, status] of [400, 401, 403, 422, 429, 500, 503, 200].entries()) {
    replay.record('replay', {
      status,
      contentType: 'application/json',
      pieces: [Buffer.from(bodies[index % bodies.length] ?? '')],
    });
    for (const stream of [true, false]) await ask('replay', { stream });
  }
  for (const stream of [true, false]) {
    for (const model of [
      'ok',
      's:status=401',
      's:status=500,body=html',
      's:end=cut@3',
      's:end=reset@head',
      's:garbage=http',
      's:end=hang@head',
      's:end=error@2',
      'nobody',
      'gpt-refused',
      'unknown',
      '',
    ]) {
      await ask(model, { stream });
    }
    await ask('ok', { stream, stream_options: PROMPT });
    await ask('ok', { stream, max_tokens: PROMPT });
  }
  for (const wrong of [`${key}x`, key.toLowerCase(), ` ${key}`, `${key}, ${key}`, `"${key}"`, `${key}\x01`])
    await ask('ok', {}, wrong);
  const valid = `Authorization: Bearer ${key}`;
  for (const request of [
    rawRequest([valid], { body: `{"model":"ok","messages":["${PROMPT}` }),
    rawRequest([valid], { body: `{"model":"ok","${PROMPT}":1,"messages":[],"messages":["${PROMPT}"]}` }),
    rawRequest([valid, 'Content-Type: text/plain'], { body: PROMPT }),
    rawRequest([valid, `x-note: ${key}`], {
      start: `POST ${CHAT}/${key}?api_key=${key}&q=${PROMPT} HTTP/1.1`,
    }),
    rawRequest([valid], { start: `POST /%zz${key} HTTP/1.1` }),
    rawRequest([valid], { start: `${key} ${CHAT} HTTP/1.1` }),
    rawRequest([`${valid}\0`]),
    rawRequest([`${valid}\r\n ${key}`]),
    rawRequest([valid, `Expect: ${key}`]),
    rawRequest([valid, `Content-Length: ${PROMPT}`], { body: '' }),
    rawRequest([valid, `Origin: https://${key}`, `Access-Control-Request-Headers: ${key}`], {
      start: `OPTIONS ${CHAT} HTTP/1.1`,
      body: '',
    }),
  ]) {
    rawReplies.push(await exchange(server.port, request).catch(() => Buffer.alloc(0)));
  }
  // Connections to the store break in the middle of work.
  const superuser = await place.store?.superuser();
  await superuser?.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
     where datname = current_database() and pid <> pg_backend_pid()`,
  );
  await superuser?.end();
  await until(
    () => ask('ok'),
    ({ status }) => status === 200,
    'the relay',
  );
}

/**
 * A secret as it is, and as it would look encoded: base64 has three forms, by where in it the secret begins.
 */
function formsOf(secret: string): string[] {
  const base64 = [0, 1, 2].map((shift) => {
    const text = Buffer.from('\0'.repeat(shift) + secret).toString('base64');
    return text.slice(shift === 0 ? 0 : shift + 1, -4);
  });
  const bytes = Buffer.from(secret);
  return [
    secret,
    bytes.toString('hex'),
    bytes.toString('hex').toUpperCase(),
    encodeURIComponent(secret),
    secret.toLowerCase(),
    ...base64,
    ...base64.map((text) => text.replaceAll('+', '-').replaceAll('/', '_')),
  ];
}

/** Which secrets stand in a text, in which form. */
function found(text: string, except: string[] = []): string[] {
  return Object.entries(secrets)
    .filter(([name]) => !except.includes(name))
    .flatMap(([name, secret]) =>
      formsOf(secret)
        .filter((form) => form !== '' && text.includes(form))
        .map((form) => `${name} as ${form}`),
    );
}

test('the search finds what it looks for', () => {
  for (const [name, secret] of Object.entries(secrets)) {
    expect(secret.length).toBeGreaterThan(15);
    for (const shift of ['', 'a', 'ab']) {
      for (const encoding of ['utf8', 'hex', 'base64', 'base64url'] as const) {
        expect(found(Buffer.from(`${shift}${secret} and so on`).toString(encoding)).join()).toContain(name);
      }
    }
  }
});

test('nothing secret is in what the server prints, at the most talkative level', async () => {
  const output = await until(
    () => server.output(),
    (text) => text.includes('"level"'),
    'the output',
  );
  expect(found(output)).toEqual([]);
  expect(output).not.toContain(INNER_HOST);
});

test('nothing secret is in any column of any table of the store', async () => {
  const log = openLog(place.store as NonNullable<typeof place.store>);
  await until(log.read, (events) => openRequests(events).length === 0, 'the log');
  await log.close();
  const client = new Client(place.store?.config('owner'));
  await client.connect();
  const { rows: tables } = await client.query<{ name: string }>(
    `select format('%I.%I', table_schema, table_name) as name from information_schema.tables
     where table_schema like 'daybook%'`,
  );
  expect(tables.length).toBeGreaterThan(4);
  for (const { name } of tables) {
    const { rows } = await client.query<{ line: string }>(`select t::text as line from ${name} t`);
    expect([name, found(rows.map(({ line }) => line).join('\n'))]).toEqual([name, []]);
  }
  await client.end();
});

test('no reply contains the credential, password, pepper or key; no error repeats the prompt', () => {
  const texts = [...replies.map(({ raw }) => raw), ...rawReplies].map((raw) => raw.toString('latin1'));
  const errors = texts.filter((text) => !/^HTTP\/1\.1 (200|204) /.test(text));
  expect(errors.length).toBeGreaterThan(50);
  for (const text of errors) expect(found(text)).toEqual([]);
  for (const text of errors) expect(text).not.toContain(INNER_HOST);
  for (const text of texts.filter((each) => each.startsWith('HTTP/1.1 200')))
    expect(found(text, ['the prompt', 'the reply'])).toEqual([]);
});
