import dns, { type LookupAddress } from 'node:dns';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { syncBuiltinESMExports } from 'node:module';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { UpstreamTerms } from '#db/events/upstream-events.ts';
import { chat, type ChatReply } from '../support/client.ts';
import { termsOf } from '../support/upstream/dispatched.ts';
import { errorCodeOf, openRequests, settledOf } from '../support/faults.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';
import { settled } from '../support/upstream/upstreams-live.ts';

/**
 * A whole server whose upstreams lead where no one may go: as its log has them, whatever the command line
 * would have said.
 */

/** Of no registry, so it leads nowhere, and it is absent that would be refused. */
const NOBODY = '2d00::1';
const HERE = '127.0.0.1';

/** What no one may reach, and who sends there. */
let [canary, lure] = [undefined, undefined] as unknown as [Server, Server];
let relay: TestRelay;
let [connections, lured, rebound] = [0, 0, 0];

/**
 * Names that someone else's name server leads wherever he likes: the second answer is another than the
 * first.
 */
const resolved: Record<string, () => string[]> = {
  'rebinds.example': () => (rebound++ === 0 ? [NOBODY] : [HERE]),
  'both.example': () => [NOBODY, HERE, '10.0.0.1'],
  'here.example': () => [HERE],
};
const system = dns.lookup;

const listening = async (server: Server): Promise<Server> => {
  await once(server.listen(0, HERE), 'listening');
  return server;
};
const portOf = (server: Server): number => (server.address() as AddressInfo).port;

beforeAll(async () => {
  const answer = (
    name: string,
    options: object,
    callback: (error: null, found: LookupAddress[]) => void,
  ): void => {
    const addresses = resolved[name]?.();
    if (!addresses) return system(name, options, callback as never);
    process.nextTick(() =>
      callback(
        null,
        addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
      ),
    );
  };
  dns.lookup = answer as never;
  syncBuiltinESMExports();
  canary = await listening(
    createServer((_request, response) =>
      response
        .writeHead(200, { 'content-type': 'application/json' })
        .end('{"id":"canary","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}'),
    ),
  );
  canary.on('connection', () => connections++);
  lure = await listening(
    createServer((request, response) => {
      lured++;
      request.resume();
      response.writeHead(302, { location: `http://${HERE}:${portOf(canary)}/v1/chat/completions` }).end();
    }),
  );
  relay = await startRelay({ env: { UPSTREAM_CONNECT_TIMEOUT_MS: '400' } });
});

afterAll(async () => {
  dns.lookup = system;
  syncBuiltinESMExports();
  await relay?.[Symbol.asyncDispose]();
  for (const server of [canary, lure]) server?.closeAllConnections();
  canary?.close();
  lure?.close();
});

let count = 0;
/** Calls a model of an upstream that the log has with these terms, for JSON and for SSE. */
async function visit(terms: Partial<UpstreamTerms>): Promise<ChatReply[]> {
  const name = `place-${count++}`;
  await relay.control((control) =>
    control.decide(() =>
      Promise.resolve({
        events: [
          {
            type: 'upstream.added',
            upstream: name,
            terms: termsOf({ models: [name], ...terms }),
            actor: 'test',
          },
        ],
        version: 1,
      }),
    ),
  );
  await settled(relay);
  return Promise.all(
    [false, true].map((stream) =>
      chat({ port: relay.port, key: relay.key, body: { model: name, messages: [], stream } }),
    ),
  );
}

const canaryAt = (host: string): string => `http://${host}:${portOf(canary)}/v1`;

test.each<[string, () => Partial<UpstreamTerms>]>([
  ['is on this machine', () => ({ base_url: canaryAt(HERE) })],
  ['is on this machine in other words', () => ({ base_url: canaryAt('2130706433') })],
  ['is on this machine by the sixth version', () => ({ base_url: canaryAt('[::ffff:7f00:1]') })],
  ['is this machine by its name', () => ({ base_url: canaryAt('localhost') })],
  ['has a name that leads here', () => ({ base_url: canaryAt('here.example') })],
  ['has a name that leads here, too', () => ({ base_url: canaryAt('both.example') })],
  [
    'has a name that leads here at the second look, at which it is retried',
    () => ({ base_url: canaryAt('rebinds.example'), retries: 3 }),
  ],
  [
    'is a metadata service, though private networks are allowed',
    () => ({ base_url: 'http://169.254.169.254/v1', network: 'private' }),
  ],
  [
    'is no machine, though private networks are allowed',
    () => ({ base_url: canaryAt('0.0.0.0'), network: 'private' }),
  ],
])('nothing is sent to an upstream that %s, and the client is told of no place', async (_, terms) => {
  const before = connections;
  const replies = await visit(terms());
  const log = await relay.waitFor((events) => openRequests(events).length === 0);
  for (const reply of replies) {
    expect([502, 504]).toContain(reply.status);
    const reported = `${reply.raw.toString('latin1')}${JSON.stringify(settledOf(log, reply.requestId))}`;
    for (const word of [
      '127.',
      'example',
      '169.254',
      'localhost',
      '2d00::',
      '0.0.0.0',
      `${portOf(canary)}`,
      'private network',
      'address',
    ])
      expect([word, reported.includes(word)]).toEqual([word, false]);
    expect(settledOf(log, reply.requestId)).toMatchObject({
      usage_source: 'none',
      input_tokens: 0,
      output_tokens: 0,
    });
  }
  expect(connections).toBe(before);
});

test('a name that was led elsewhere was asked again for each connection', () => {
  expect(rebound).toBeGreaterThan(2);
});

test('nothing is sent where a redirect leads', async () => {
  const before = connections;
  const replies = await visit({ base_url: `http://${HERE}:${portOf(lure)}/v1`, network: 'private' });
  expect(replies.map((reply) => [reply.status, errorCodeOf(reply)])).toEqual([
    [502, 'upstream_error'],
    [502, 'upstream_error'],
  ]);
  expect([lured, connections]).toEqual([2, before]);
  expect(replies.some(({ raw }) => raw.includes(`${portOf(canary)}`))).toBe(false);
});

test('the same place is reached where its terms allow it', async () => {
  const [json] = await visit({ base_url: canaryAt('here.example'), network: 'private' });
  expect([json?.status, json?.upstreamId, connections > 0]).toEqual([200, 'canary', true]);
});
