import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Pool } from 'undici';
import type { Network } from '#server/upstreams/addresses.ts';
import { ForbiddenAddress, guardedConnector, type LookUp } from '#server/upstreams/connect.ts';

/** What nobody may reach: a server on this machine that counts. */
let reached = 0;
const canary = createServer((_request, response) => {
  reached++;
  response.end('{"secret":"canary"}');
});
let port = 0;
beforeAll(async () => {
  canary.listen(0, '::');
  await once(canary, 'listening');
  ({ port } = canary.address() as AddressInfo);
});
afterAll(() => {
  canary.closeAllConnections();
  canary.close();
});

/** Of no registry, so it leads nowhere, and it is none that would be refused. */
const NOBODY = '2d00::1';
const TIMEOUT_MS = 2_000;

/** A resolver that answers each look-up with the next of these, and then with the last one again. */
function answering(...answers: string[][]): LookUp & { asked: number } {
  const answer: LookUp = (_name, _options, callback) => {
    const addresses = answers[Math.min(lookup.asked++, answers.length - 1)] ?? [];
    process.nextTick(() =>
      callback(
        null,
        addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
      ),
    );
  };
  const lookup = Object.assign(answer, { asked: 0 });
  return lookup;
}

/** Asks the place for something; tells the status, or the error. */
async function visit(
  origin: string,
  network: Network,
  lookup?: LookUp,
  timeoutMs = TIMEOUT_MS,
): Promise<number | Error> {
  const pool = new Pool(origin, {
    connections: null,
    connect: guardedConnector({ network, timeoutMs, ...(lookup && { lookup }) }),
  });
  try {
    const { statusCode, body } = await pool.request({ path: '/v1/models', method: 'GET' });
    await body.dump();
    return statusCode;
  } catch (error) {
    return error as Error;
  } finally {
    await pool.destroy();
  }
}

/** Names that somebody else's name server leads wherever he likes. */
const NAMES: Record<string, string[]> = {
  'rebind.example': ['127.0.0.1'],
  'six.example': ['::1'],
  'mapped.example': ['::ffff:127.0.0.1'],
  'private.example': ['10.0.0.5'],
  'shared.example': ['100.64.1.1'],
  'metadata.example': ['169.254.169.254'],
  'metadata6.example': ['fd00:ec2::254'],
  'mapped-metadata.example': ['::ffff:a9fe:a9fe'],
  'nat64.example': ['64:ff9b::a9fe:a9fe'],
  'zero.example': ['0.0.0.0'],
  'zero6.example': ['::'],
  'several.example': ['127.0.0.1', '10.0.0.1', '::1'],
  'wire.example': ['fe80::1'],
  'nobody.example': [],
};
const byName: LookUp = (name, _options, callback) => {
  const addresses = NAMES[name.replace(/\.$/, '')] ?? ['127.0.0.1'];
  process.nextTick(() =>
    callback(
      null,
      addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
    ),
  );
};

/** This machine, however it is written: each of them reaches the canary where that is allowed. */
const HERE = [
  '127.0.0.1',
  '127.0.0.1.',
  '127.1',
  '127.0.1',
  '127.0.0.2',
  '127.255.255.254',
  '2130706433',
  '0x7f000001',
  '0x7f.1',
  '0x7f.0.0.1',
  '0X7F.0x0.0x0.0x1',
  '017700000001',
  '0177.0.0.1',
  '0177.1',
  '127.0.0.0x1',
  '%31%32%37%2e0.0.1',
  '\uff11\uff12\uff17.0.0.1',
  '127\u30020\u30020\u30021',
  '\u2460\u2461\u2466.0.0.1',
  '[::1]',
  '[0:0:0:0:0:0:0:1]',
  '[0000::0001]',
  '[::ffff:127.0.0.1]',
  '[::ffff:7f00:1]',
  '[::FFFF:7F00:0001]',
  '[0:0:0:0:0:ffff:127.0.0.1]',
  'localhost',
  'LOCALHOST',
  'localhost.',
  'a.localhost',
  'l\u24deCalhost',
  'rebind.example',
  'rebind.example.',
  'six.example',
  'mapped.example',
  'REBIND.example',
];
/** Private, though nobody is there. */
const ELSEWHERE = [
  '10.0.0.1',
  '167772161',
  '172.16.0.1',
  '192.168.0.1',
  '0xc0a80001',
  '100.64.0.1',
  '[fd12::1]',
  '[::ffff:10.0.0.1]',
  '[64:ff9b::7f00:1]',
  '[64:ff9b:1::7f00:1]',
  '[2002:7f00:1::]',
  'private.example',
  'shared.example',
];
/** Never, whatever was allowed. */
const NEVER = [
  '169.254.169.254',
  '2852039166',
  '0xa9fea9fe',
  '0251.0376.0251.0376',
  '169.254.43518',
  '[::ffff:169.254.169.254]',
  '[::ffff:a9fe:a9fe]',
  '[::a9fe:a9fe]',
  '[64:ff9b::a9fe:a9fe]',
  '[2002:a9fe:a9fe::1]',
  '[fd00:ec2::254]',
  '[fd20:ce::254]',
  '[fe80::a9fe:a9fe]',
  '100.100.100.200',
  '168.63.129.16',
  '192.0.0.192',
  '0',
  '0.0.0.0',
  '[::]',
  '[::127.0.0.1]',
  '[::ffff:0:127.0.0.1]',
  '[2001:0:7f00:1::]',
  '224.0.0.1',
  '255.255.255.255',
  '[ff02::1]',
  '192.0.2.1',
  'metadata.google.internal',
  'metadata.google.internal.',
  'metadata',
  'METADATA.goog',
  'instance-data',
  'metadata.example',
  'metadata6.example',
  'mapped-metadata.example',
  'nat64.example',
  'zero.example',
  'zero6.example',
  'wire.example',
  'nobody.example',
];

describe('of the places that a base address may name', () => {
  test(`${HERE.length + ELSEWHERE.length} are refused without leave, and nobody is reached`, async () => {
    expect(HERE.length + ELSEWHERE.length + NEVER.length).toBeGreaterThanOrEqual(60);
    const before = reached;
    for (const host of [...HERE, ...ELSEWHERE, 'several.example'])
      expect(await visit(`http://${host}:${port}`, 'public', byName), host).toBeInstanceOf(ForbiddenAddress);
    expect(reached - before).toBe(0);
  });

  test(`${NEVER.length} are refused with leave, too`, async () => {
    const before = reached;
    for (const host of NEVER) {
      expect(await visit(`http://${host}:${port}`, 'private', byName), host).toBeInstanceOf(ForbiddenAddress);
      expect(await visit(`http://${host}:${port}`, 'public', byName), host).toBeInstanceOf(ForbiddenAddress);
    }
    expect(reached - before).toBe(0);
  });

  test('those on this machine are reached with leave', async () => {
    const before = reached;
    for (const host of HERE) expect(await visit(`http://${host}:${port}`, 'private', byName), host).toBe(200);
    expect(reached - before).toBe(HERE.length);
  });

  test("one by the system's own names is, too", async () => {
    expect(await visit(`http://localhost:${port}`, 'private')).toBe(200);
    expect(await visit(`http://localhost:${port}`, 'public')).toBeInstanceOf(ForbiddenAddress);
  });
});

describe('a name that changes its mind', () => {
  test('is looked up once for each connection, and every answer is judged', async () => {
    const before = reached;
    const lookup = answering([NOBODY], ['127.0.0.1'], ['::1', '127.0.0.1'], ['169.254.169.254']);
    const outcomes: unknown[] = [];
    for (let time = 1; time <= 5; time++) {
      outcomes.push(await visit(`http://rebind.example:${port}`, 'public', lookup, 300));
      expect(lookup.asked).toBe(time);
    }
    expect(outcomes.map((each) => each instanceof ForbiddenAddress)).toEqual([false, true, true, true, true]);
    expect(reached - before).toBe(0);
  });

  test('in the middle of an answer is connected to only where it may', async () => {
    const before = reached;
    const answers = [
      [NOBODY, '127.0.0.1'],
      ['127.0.0.1', NOBODY],
      ['169.254.169.254', NOBODY, '::1'],
    ];
    for (const outcome of await Promise.all(
      answers.map((each) => visit(`http://mixed.example:${port}`, 'public', answering(each), 300)),
    )) {
      // It was tried, and nobody is there.
      expect(outcome).toBeInstanceOf(Error);
      expect(outcome).not.toBeInstanceOf(ForbiddenAddress);
    }
    expect(reached - before).toBe(0);
    expect(
      await visit(`http://mixed.example:${port}`, 'private', answering(['169.254.169.254', '127.0.0.1'])),
    ).toBe(200);
  });

  test('behind the judgement is found out at its far end, before anything is sent', async () => {
    const before = reached;
    let reads = 0;
    const turncoat = {
      family: 4,
      get address() {
        return reads++ === 0 ? '93.184.215.14' : '127.0.0.1';
      },
    };
    const outcome = await visit(`http://turncoat.example:${port}`, 'public', (_name, _options, callback) =>
      callback(null, [turncoat]),
    );
    expect(outcome).toBeInstanceOf(ForbiddenAddress);
    expect(reads).toBeGreaterThan(1);
    expect(reached - before).toBe(0);
  });
});

test('a redirect to what nobody may reach is an answer like any other, and not followed', async () => {
  const lure = createServer((_request, response) =>
    response.writeHead(302, { location: `http://127.0.0.1:${port}/` }).end(),
  );
  lure.listen(0, '127.0.0.1');
  await once(lure, 'listening');
  const before = reached;
  expect(await visit(`http://127.0.0.1:${(lure.address() as AddressInfo).port}`, 'private')).toBe(302);
  expect(reached - before).toBe(0);
  lure.close();
});

test('a refusal names no address, and says whether leave would help', async () => {
  const error = await visit(`http://rebind.example:${port}`, 'public', byName);
  expect(error).toMatchObject({ code: 'address_refused', reach: 'private' });
  expect(await visit('http://metadata.example', 'private', byName)).toMatchObject({
    code: 'address_refused',
    reach: 'never',
  });
  expect(String(error)).not.toMatch(/\d|rebind|example/);
});

test('a look-up that never ends is given up with the connection', async () => {
  expect(await visit('http://slow.example', 'public', () => undefined, 50)).toMatchObject({
    code: 'UND_ERR_CONNECT_TIMEOUT',
  });
});

test('a look-up that fails says so', async () => {
  const failing: LookUp = (_name, _options, callback) =>
    callback(Object.assign(new Error('no such name'), { code: 'ENOTFOUND' }), []);
  expect(await visit('http://nowhere.example', 'public', failing)).toMatchObject({ code: 'ENOTFOUND' });
});

test('TLS is with the name that was asked for, by HTTP/1.1 alone', async () => {
  let name: string | null = null;
  let protocols: string[] | null = null;
  const server = createTlsServer({
    SNICallback: (servername, callback) => {
      name = servername;
      callback(null);
    },
    ALPNCallback: (offered) => {
      ({ protocols } = offered);
      return 'http/1.1';
    },
  });
  server.on('tlsClientError', () => undefined).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port: tlsPort } = server.address() as AddressInfo;
  // It has no certificate; what is asked for comes before that.
  expect(
    await visit(`https://models.example:${tlsPort}`, 'private', answering(['127.0.0.1'])),
  ).toBeInstanceOf(Error);
  expect({ name, protocols }).toEqual({ name: 'models.example', protocols: ['http/1.1'] });
  server.close();
});
