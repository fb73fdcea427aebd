import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { gunzipSync } from 'node:zlib';
import { Pool } from 'undici';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { chat, type ChatOptions } from '../support/client.ts';
import { exchange } from '../support/exchange.ts';
import { callScript, type ScriptedCall } from '../support/upstream/scripted-call.ts';
import { refusedPort, startUpstream, type ScriptedUpstream } from '../support/upstream/upstream.ts';

let upstream: ScriptedUpstream;
beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(() => upstream.close());

const PROGRAM = path.join(import.meta.dirname, '../support/upstream/upstream.ts');
const sse = { stream: true };
const play = (
  script: string,
  fields: object = {},
  options: Partial<ChatOptions> = {},
): Promise<ScriptedCall> => callScript(upstream, script, fields, options);

/** The HTTP chunks of a reply as they were framed. */
function chunksOf(raw: Buffer): Buffer[] {
  const chunks: Buffer[] = [];
  let at = raw.indexOf('\r\n\r\n') + 4;
  for (;;) {
    const end = raw.indexOf('\r\n', at);
    const size = Number.parseInt(raw.toString('latin1', at, end), 16);
    if (size === 0) return chunks;
    chunks.push(raw.subarray(end + 2, end + 2 + size));
    at = end + 2 + size + 2;
  }
}

describe('the way bytes are cut and written', () => {
  const text = 't\u00f6k\u20ac\u{1f600}0 t\u00f6k\u20ac\u{1f600}1 ';

  const cuts = [
    'split=1',
    'split=17',
    'split=random,seed=5',
    'split=chars',
    'split=lines',
    'split=40,drip=1ms',
  ];
  test.each([...cuts, 'batch=3', 'eol=crlf', 'space=no'])(
    '%s changes nothing of everything that is said',
    async (script) => {
      const { reply, row } = await play(`tokens=2,text=utf8,${script}`, sse);
      expect(reply).toMatchObject({ text, tokens: 2, sawDone: true, finished: true });
      expect(row).toMatchObject({ ended: 'complete', tokensSent: 2 });
    },
  );

  test('cuts go through characters, through `data:`, and between the two ends of a blank line', async () => {
    const inCharacters = chunksOf((await play('tokens=2,text=utf8,split=chars', sse)).reply.raw);
    expect(inCharacters.some((chunk) => chunk.toString().includes('\ufffd'))).toBe(true);
    const inLines = chunksOf((await play('tokens=2,split=lines', sse)).reply.raw).map((chunk) =>
      chunk.toString(),
    );
    expect(inLines.some((chunk) => chunk.endsWith('da'))).toBe(true);
    for (const chunk of inLines) expect(chunk).not.toMatch(/data:|\n\n/);
  });

  test('one event is one chunk, unless a batch puts several into it', async () => {
    expect(chunksOf((await play('tokens=6', sse)).reply.raw)).toHaveLength(9);
    expect(chunksOf((await play('tokens=6,batch=4', sse)).reply.raw)).toHaveLength(3);
  });

  test('lines end, and fields begin, as the script says', async () => {
    expect((await play('eol=crlf', sse)).reply.body.toString()).toMatch(/^data: \{.*\}\r\n\r\n/);
    expect((await play('space=no', sse)).reply.body.toString()).toMatch(/^data:\{.*\}\n\n/);
  });

  test('gzip comes unasked and unpacks to the same reply', async () => {
    const { reply, row } = await play('tokens=3,encoding=gzip', sse);
    expect(reply.header('content-encoding')).toBe('gzip');
    expect(gunzipSync(reply.body).toString()).toContain('tok2 ');
    expect(row).toMatchObject({ ended: 'complete', tokensSent: 3, doneSent: true });
  });

  test('headers can be as large as wanted', async () => {
    const { reply } = await play('headers=200KB');
    expect(reply.raw.indexOf('\r\n\r\n')).toBeGreaterThan(200 * 1024);
  });

  test.each([
    ['one line', 'tokens=1,pad=40MB', sse],
    ['many events', 'tokens=400,pad=100KB', sse],
    ['JSON', 'tokens=1,pad=40MB', {}],
  ])('a large body arrives whole, as %s', async (_, script, fields) => {
    const { reply, row } = await play(script, fields);
    expect(reply).toMatchObject({ finished: true, isTruncated: true, bytes: row.replyBytesSent });
    expect(row.ended).toBe('complete');
    expect(row.contentBytesSent).toBeGreaterThan(39 * 1024 ** 2);
  });

  test('a large body waits for a reader that does not read', async () => {
    const user = randomUUID();
    const body = JSON.stringify({ model: 's:tokens=1,pad=1GB', user });
    const socket = connect({ port: upstream.port, host: '127.0.0.1' }).pause();
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    await upstream.ledger.until(() => upstream.attemptsOf(user)[0]?.status === 200);
    await play('');
    // What the kernel takes on both sides is some MB; the rest has to wait.
    expect(upstream.attemptsOf(user)[0]?.bytesSent).toBeLessThan(64 * 1024 ** 2);
    socket.destroy();
    await upstream.ledger.until(() => upstream.attemptsOf(user)[0]?.ended === 'client_closed');
  });
});

describe('an error answer', () => {
  test.each([400, 401, 403, 404, 408, 413, 422, 429, 500, 503, 999])(
    'with status %i is an error object',
    async (status) => {
      const { reply, row } = await play(`status=${status}`, sse);
      expect(reply).toMatchObject({ status, finished: true, sawError: true, upstreamId: null });
      expect(reply.json).toMatchObject({
        error: { message: expect.any(String), type: expect.any(String), param: null },
      });
      expect(row).toMatchObject({ status, ended: 'refused', tokensSent: 0, usageReported: null });
    },
  );

  test.each([
    ['status=429', '1'],
    ['status=503,retry=120', '120'],
    ['status=500', null],
  ])('%s has Retry-After %s', async (script, retryAfter) => {
    expect((await play(script)).reply.header('retry-after')).toBe(retryAfter);
  });

  test('can be HTML that names an inner machine, or empty', async () => {
    const html = (await play('status=503,body=html')).reply;
    expect(html.header('content-type')).toBe('text/html');
    expect(html.body.toString()).toContain('inner-7.upstream.internal');
    expect((await play('status=500,body=empty')).reply).toMatchObject({ bytes: 0, finished: true });
  });

  test('can be a redirect, and the upstream knows who followed it', async () => {
    const { reply } = await play('status=302');
    expect(reply.header('location')).toBe('/redirected');
    await exchange(upstream.port, 'GET /redirected HTTP/1.1\r\nhost: x\r\n\r\n');
    expect(upstream.ledger.visits).toMatchObject([{ method: 'GET', path: '/redirected' }]);
  });

  test('can be a switch of protocols that no one asked for', async () => {
    const user = randomUUID();
    const leave = new AbortController();
    const reply = chat({ port: upstream.port, body: { model: 's:status=101', user }, signal: leave.signal });
    await upstream.ledger.until(() => upstream.attemptsOf(user)[0]?.ended === 'refused');
    expect(upstream.attemptsOf(user)[0]?.status).toBe(101);
    leave.abort();
    expect(await reply).toMatchObject({ aborted: true, finished: false });
  });

  test('with 401 quotes the credential, which a relay must not pass on', async () => {
    await using guarded = await startUpstream({ apiKey: 'sk-right' });
    const body = { model: 'ok', user: 'u' };
    const refused = await chat({ port: guarded.port, key: 'sk-wrong', body });
    expect(refused.status).toBe(401);
    expect(refused.body.toString()).toContain('sk-wrong');
    expect((await chat({ port: guarded.port, key: 'sk-right', body })).status).toBe(200);
    expect(guarded.attemptsOf('u').map(({ authorized }) => authorized)).toEqual([false, true]);
  });
});

describe('a connection', () => {
  const body = JSON.stringify({ model: 'ok', user: 'pooled' });
  const post = { method: 'POST', path: '/v1/chat/completions', body } as const;

  test('is reused, and is gone after an early close', async () => {
    await using own = await startUpstream();
    const pool = new Pool(own.url, { connections: 1 });
    for (let call = 0; call < 2; call += 1) await (await pool.request(post)).body.dump();
    await expect.poll(() => own.closeIdle()).toBe(1);
    await expect.poll(() => own.connections).toBe(0);
    await (await pool.request(post)).body.dump();
    expect(own.ledger.attempts.map(({ connection }) => connection)).toEqual([1, 1, 2]);
    await pool.close();
  });

  test('with a request under way is not idle', async () => {
    await using own = await startUpstream();
    const leave = new AbortController();
    const reply = chat({ port: own.port, body: { model: 's:end=hang@head' }, signal: leave.signal });
    await own.ledger.until(([row]) => row?.ended === 'hung');
    expect(own.closeIdle()).toBe(0);
    leave.abort();
    expect((await reply).aborted).toBe(true);
  });

  test.each(['connection=close', 'idle=0ms'])('is closed after a reply with %s', async (script) => {
    const model = JSON.stringify({ model: `s:${script}` });
    const socket = connect({ port: upstream.port, host: '127.0.0.1' }).resume();
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: ${model.length}\r\n\r\n${model}`,
    );
    await once(socket, 'end');
  });

  test('is refused at a port where no one listens', async () => {
    const reply = await chat({ port: await refusedPort(), body: { model: 'ok' } });
    expect(reply).toMatchObject({ problem: 'ECONNREFUSED', status: null, finished: false });
  });
});

describe('a request', () => {
  test('is kept byte for byte, whatever its framing and pieces', async () => {
    const body = '{"model":"ok","big":12345678901234567890,"user":"exact","-0":-0}';
    const chunked = `${body.length.toString(16)};note=x\r\n${body}\r\n0\r\ntrailer: t\r\n\r\n`;
    const head = 'POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-request-id: r-1\r\n';
    const reply = await exchange(upstream.port, [
      `${head}transfer-`,
      'encoding: chunked\r\n\r\n',
      ...chunked.split(''),
    ]);
    expect(reply.toString()).toContain('"finish_reason":"stop"');
    const [row] = upstream.attemptsOf('exact');
    expect(row).toMatchObject({ requestId: 'r-1', bodyBytes: body.length });
    expect(upstream.ledger.requestBody(row?.attempt ?? 0).toString()).toBe(body);
  });

  test('that expects 100 Continue is told to go on', async () => {
    const head =
      'POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 14\r\n\r\n';
    const reply = await exchange(upstream.port, [head, '{"model":"ok"}']);
    expect(reply.toString()).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK/);
  });

  test.each([
    ['{"model":"gpt-unheard-of"}', 404],
    ['{"messages":[]}', 400],
    ['not JSON', 400],
    ['{"model":"s:tokenz=1"}', 501],
  ])('that asks for nothing we have is refused: %s', async (given, status) => {
    expect((await chat({ port: upstream.port, body: given })).status).toBe(status);
  });

  test('for a registered name plays its scripts one after the other, for each user apart', async () => {
    upstream.script('flaky', 'status=503|status=429|tokens=3');
    const seen: (number | null)[] = [];
    for (const user of ['anna', 'anna', 'bert', 'anna', 'anna']) {
      seen.push((await chat({ port: upstream.port, body: { model: 'flaky', user } })).status);
    }
    expect(seen).toEqual([503, 429, 503, 200, 200]);
  });
});

test('the upstream runs as a program and shows its ledger', async () => {
  const child = spawn(process.execPath, [PROGRAM, '--api-key', 'sk-up'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    const line = String(await once(createInterface(child.stdout), 'line'));
    const port = Number(/^upstream ready (\d+)$/.exec(line)?.[1]);
    const reply = await chat({ port, key: 'sk-up', body: { model: 's:tokens=2', user: 'outside' } });
    expect(reply).toMatchObject({ status: 200, tokens: 2 });
    const dump = await exchange(port, 'GET /__ledger HTTP/1.1\r\nhost: x\r\n\r\n');
    expect(JSON.parse(dump.toString().split('\r\n\r\n')[1] ?? '')).toMatchObject({
      attempts: [{ user: 'outside', id: reply.upstreamId, tokensSent: 2, ended: 'complete' }],
    });
    child.kill('SIGTERM');
    expect(await once(child, 'exit')).toEqual([0, null]);
  } finally {
    child.kill('SIGKILL');
  }
});
