import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Caddy, canRunCaddy, startCaddy } from '../support/deploy/caddy.ts';
import { UPLOADS, uploads } from '../support/deploy/uploads.ts';
import { startRelay, type TestRelay, until } from '../support/relay.ts';
import { refusedPort, type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** deploy/Caddyfile before a real server. Skipped where Caddy is not installed. */

let upstream: ScriptedUpstream;
let relay: TestRelay;
let caddy: Caddy;
let port: number;

const call = (model: string, more: object, signal: AbortSignal): Promise<Response> =>
  fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${relay.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, messages: [{ role: 'user', content: 'hi' }], ...more }),
    signal,
  });

describe.skipIf(!canRunCaddy)('behind Caddy', () => {
  beforeAll(async () => {
    upstream = await startUpstream();
    relay = await startRelay({
      upstreams: [upstream],
      env: { MAX_BODY_MB: '1', TRUSTED_PROXIES: '127.0.0.1' },
    });
    port = await refusedPort();
    caddy = await startCaddy(path.join(relay.dataDir, 'caddy'), port, relay.port);
  });
  afterAll(async () => {
    await caddy?.[Symbol.asyncDispose]();
    await relay?.[Symbol.asyncDispose]();
    await upstream?.close();
  });

  test('a refusal reaches a client that is still sending', async () => {
    const seen = [...(await uploads(port, 'wrong')), ...(await uploads(port, relay.key))];
    const wanted = ['401 invalid_api_key', '413 request_too_large'].flatMap((each) =>
      Array.from({ length: UPLOADS }, () => each),
    );
    expect(seen, caddy.output().slice(-2_000)).toEqual(wanted);
  });

  test('passes on each piece of a streamed reply before the next one is there', async () => {
    const stop = new AbortController();
    const reply = await call('s:tokens=2,end=hang@2', { stream: true }, stop.signal);
    let text = '';
    for await (const bytes of reply.body ?? []) {
      text += Buffer.from(bytes).toString();
      // The provider is silent from here on, and the call runs.
      if (text.includes('tok1')) break;
    }
    stop.abort();
    expect(text).not.toContain('[DONE]');
  });

  test('reports a client that leaves to the server, also while nothing of the reply has come', async () => {
    const leaving = new AbortController();
    const left = call('s:head=60s', { user: 'leaver' }, leaving.signal).catch(() => null);
    await until(
      () => upstream.attemptsOf('leaver').length,
      (count) => count === 1,
      'the call at the provider',
    );
    leaving.abort();
    await left;
    await until(
      () => upstream.attemptsOf('leaver')[0]?.ended,
      (ended) => ended === 'client_closed',
      'the end of the call at the provider',
    );
    expect(upstream.attemptsOf('leaver')).toHaveLength(1);
  });
});
