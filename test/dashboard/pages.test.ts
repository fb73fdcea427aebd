import { cp, mkdir, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import express from 'express';
import { Client, request as ask } from 'undici';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { uuidv7 } from '#db/ids.ts';
import { sendApiError, type WithReply } from '#server/http/respond.ts';
import { pageHeaders } from '#server/dashboard/page/headers.ts';
import { pages } from '#server/dashboard/page/pages.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { networksOf } from '#server/access/networks.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { startRelay } from '../support/relay.ts';

/** How the built page reaches a browser, from a page that the test has made, over a real socket. */

const HTML = '<!doctype html><title>Daybook</title><script src="/assets/app-1a2b.js"></script>';
const SCRIPT = `${'console.log("a page");'.repeat(50)}\n`;
const BROWSER = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8', 'accept-encoding': 'identity' };

let directory: string;
let dist: string;
let server: Server;
let origin: string;

async function build(into: string): Promise<void> {
  await mkdir(path.join(into, 'assets'), { recursive: true });
  await writeFile(path.join(into, 'index.html'), HTML);
  await mkdir(path.join(into, 'docs'));
  await writeFile(path.join(into, 'docs/index.html'), '<h1>Documentation</h1>');
  await writeFile(path.join(into, 'theme.js'), '0;');
  await writeFile(path.join(into, 'assets/app-1a2b.js'), SCRIPT);
}

function serve(from: string): Promise<Server> {
  const app = express();
  app.use((_request, response, next) => {
    (response as unknown as WithReply).reply = { requestId: uuidv7(), extraHeaders: [] };
    next();
  });
  app.use(pages(from, pageHeaders({ PUBLIC_URL: undefined, trustedProxies: networksOf(['127.0.0.1']) })));
  app.use((request, response) => sendApiError(request, response, new ApiError('route_not_found')));
  const started = createServer(app);
  return new Promise((resolve) => started.listen(0, '127.0.0.1', () => resolve(started)));
}

const originOf = (of: Server): string => `http://127.0.0.1:${(of.address() as AddressInfo).port}`;

beforeAll(async () => {
  directory = await makeTestDirectory();
  dist = path.join(directory, 'dist');
  await build(dist);
  server = await serve(dist);
  origin = originOf(server);
});

afterAll(async () => {
  server?.closeAllConnections();
  server?.close();
  await removeTestDirectory(directory);
});

const get = (at: string, headers: Record<string, string> = BROWSER, method = 'GET'): Promise<Response> =>
  fetch(origin + at, { headers, method });

test('every path serves the page, revalidated each time; hashed files are cached for long', async () => {
  for (const at of [
    '/',
    '/requests',
    '/requests/01a1fffd-088e-7242-bbde-9aba9931f5b9?zone=utc',
    '/index.html',
  ]) {
    const reply = await get(at);
    expect([at, reply.status, await reply.text()]).toEqual([at, 200, HTML]);
    expect(reply.headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(reply.headers.get('cache-control')).toBe('no-cache');
    const again = await get(at, { ...BROWSER, 'if-none-match': `"other", W/${reply.headers.get('etag')}` });
    expect([again.status, await again.text()]).toEqual([304, '']);
  }
  const script = await get('/assets/app-1a2b.js', { accept: '*/*', 'accept-encoding': 'identity' });
  expect(await script.text()).toBe(SCRIPT);
  expect(script.headers.get('content-type')).toBe('text/javascript; charset=utf-8');
  expect(script.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
  expect((await get('/theme.js', { accept: '*/*' })).headers.get('cache-control')).toBe('no-cache');
  const head = await get('/', BROWSER, 'HEAD');
  expect([head.status, head.headers.get('content-length'), await head.text()]).toEqual([
    200,
    String(HTML.length),
    '',
  ]);
});

test('below /docs are the pages of the documentation alone', async () => {
  // Its links are relative.
  for (const at of ['/docs', '/docs/']) {
    const reply = await get(at);
    expect([new URL(reply.url).pathname, await reply.text()]).toEqual([
      '/docs/index.html',
      '<h1>Documentation</h1>',
    ]);
  }
  expect((await get('/docs/limits.html')).status).toBe(404);
});

test('it comes in the smallest form that a browser takes, each under a tag of its own', async () => {
  const unpack = { br: brotliDecompressSync, gzip: gunzipSync, identity: (bytes: Buffer) => bytes };
  const tags = new Set<string>();
  for (const [taken, encoding] of [
    ['gzip, deflate, br, zstd', 'br'],
    ['gzip', 'gzip'],
    ['br;q=0, gzip;q=0.5', 'gzip'],
    ['deflate', 'identity'],
    ['', 'identity'],
  ] as const) {
    // Unlike fetch it leaves a body as it came.
    const { headers, body } = await ask(`${origin}/assets/app-1a2b.js`, {
      headers: { 'accept-encoding': taken },
    });
    expect([taken, headers['content-encoding'] ?? 'identity']).toEqual([taken, encoding]);
    expect(headers['vary']).toBe('accept-encoding');
    expect(unpack[encoding](Buffer.from(await body.arrayBuffer())).toString()).toBe(SCRIPT);
    tags.add(String(headers['etag']));
  }
  expect(tags.size).toBe(3);
});

test("missing files and requests that aren't from browsers get no page", async () => {
  for (const at of [
    '/assets/app-0000.js',
    '/assets/',
    '/v1/nothing',
    '/api/v1/nothing',
    '/healthz',
    '/readyz',
  ]) {
    const reply = await get(at);
    expect([at, reply.status]).toEqual([at, 404]);
    expect(await reply.json()).toMatchObject({ error: { code: 'route_not_found' } });
  }
  // It leaves a path as it is written.
  const client = new Client(origin);
  for (const at of [
    '/../secret',
    '/assets/..%2f..%2fsecret',
    '/%2e%2e/secret',
    '/@fs/etc/passwd',
    '/src/main.tsx',
    '/..%5csecret',
    '/constructor',
    '/__proto__',
  ]) {
    const { statusCode, body } = await client.request({
      path: at,
      method: 'GET',
      headers: { accept: '*/*' },
    });
    expect([at, statusCode]).toEqual([at, 404]);
    await body.dump();
  }
  await client.close();
  expect((await get('/', { accept: '*/*' })).status).toBe(404);
  expect((await get('/', BROWSER, 'POST')).status).toBe(404);
});

test("the page runs only its own files, can't be framed, and sets HSTS over TLS", async () => {
  const plain = (await get('/')).headers;
  const policy = new Map(
    (plain.get('content-security-policy') ?? '')
      .split(';')
      .map((each) => [each.split(' ', 1)[0], each.split(' ').slice(1)]),
  );
  expect(Object.fromEntries(policy)).toEqual({
    'default-src': ["'none'"],
    'script-src': ["'self'"],
    'style-src': ["'self'"],
    'img-src': ["'self'", 'data:'],
    'font-src': ["'self'"],
    'connect-src': ["'self'"],
    'form-action': ["'self'"],
    'base-uri': ["'none'"],
    'frame-ancestors': ["'none'"],
    'manifest-src': ["'self'"],
    'require-trusted-types-for': ["'script'"],
    'trusted-types': ["'none'"],
  });
  expect(
    Object.fromEntries(
      [
        'x-frame-options',
        'x-content-type-options',
        'referrer-policy',
        'cross-origin-opener-policy',
        'cross-origin-resource-policy',
        'strict-transport-security',
      ].map((name) => [name, plain.get(name)]),
    ),
  ).toEqual({
    'x-frame-options': 'DENY',
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
    'strict-transport-security': null,
  });
  expect(plain.get('permissions-policy')).toContain('camera=()');
  expect(
    (await get('/', { ...BROWSER, 'x-forwarded-proto': 'https' })).headers.get('strict-transport-security'),
  ).toBe('max-age=31536000');
});

test('where no page was built the address says how, and has one as soon as there is one', async () => {
  const later = path.join(directory, 'later');
  const empty = await serve(later);
  try {
    const before = await fetch(`${originOf(empty)}/`, { headers: BROWSER });
    expect([before.status, await before.text()]).toEqual([503, expect.stringContaining('npm run build')]);
    expect((await fetch(`${originOf(empty)}/v1/nothing`, { headers: BROWSER })).status).toBe(404);
    await cp(dist, later, { recursive: true });
    expect(await (await fetch(`${originOf(empty)}/`, { headers: BROWSER })).text()).toBe(HTML);
    // It is in memory from then on.
    await rm(later, { recursive: true });
    expect(await (await fetch(`${originOf(empty)}/keys`, { headers: BROWSER })).text()).toBe(HTML);
  } finally {
    empty.closeAllConnections();
    empty.close();
  }
});

test("the relay's API has no page headers, the dashboard's has, and a missing /v1 gets a hint", async () => {
  await using relay = await startRelay();
  const visit = (at: string, headers: Record<string, string> = {}) =>
    fetch(`http://127.0.0.1:${relay.port}${at}`, { headers });
  const models = await visit('/v1/models', { authorization: `Bearer ${relay.key}` });
  expect([models.status, models.headers.get('content-security-policy')]).toEqual([200, null]);
  const api = await visit('/api/v1/me');
  expect([api.status, api.headers.get('x-frame-options'), api.headers.get('cache-control')]).toEqual([
    401,
    'DENY',
    'no-store',
  ]);
  for (const [at, hint] of [
    ['/chat/completions', 'ends in /v1'],
    ['/models', 'ends in /v1'],
    ['/', 'this address is the dashboard'],
  ] as const) {
    const reply = await visit(at, { accept: '*/*' });
    expect([at, reply.status, await reply.text()]).toEqual([at, 404, expect.stringContaining(hint)]);
  }
});
