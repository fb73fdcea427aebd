import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { chat } from '../support/client.ts';
import { LiveRefused, lookOn } from '../support/live.ts';
import { startRelay, type TestRelay, until } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** The live feed while its store goes away and comes back. */

let upstream: ScriptedUpstream;
let relay: TestRelay;

beforeAll(async () => {
  upstream = await startUpstream();
  // A cluster of its own, since it is killed here.
  relay = await startRelay({ upstreams: [upstream], postgres: 'embedded' });
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

const call = () =>
  chat({ port: relay.port, key: relay.key, body: { model: 'ok', stream: true, messages: [] } });
const look = () => lookOn({ port: relay.port, key: relay.key });
const pidFile = (): string => path.join(relay.dataDir, 'postgres', 'postmaster.pid');
const postmaster = (): number =>
  existsSync(pidFile()) ? Number(readFileSync(pidFile(), 'utf8').split('\n', 1)[0]) : Number.NaN;

test('a viewer survives a store outage without loss or duplicates; new ones get 503', async () => {
  await using viewer = await look();
  const requests: (string | null)[] = [];
  for (let round = 0; round < 3; round++) {
    const killed = postmaster();
    process.kill(killed, 'SIGKILL');
    await until(
      async () => {
        const reply = await call();
        if (reply.status === 200) requests.push(reply.requestId);
        await look().then(
          (other) => other.leave(),
          (error: unknown) => {
            if (!(error instanceof LiveRefused)) throw error;
            expect([error.status, error.code]).toEqual([503, 'store_unavailable']);
          },
        );
        // Its sessions outlive it for a moment.
        return reply.status === 200 && postmaster() !== killed;
      },
      (isBack) => isBack,
      'the relay',
    );
  }
  const log = await relay.waitFor((events) =>
    requests.every(
      (request) => events.filter(({ event }) => 'request' in event && event.request === request).length === 2,
    ),
  );
  const head = log.at(-1)?.position ?? 0;
  await viewer.sees(({ position }) => position >= head, 20_000);
  const of = (type: 'started' | 'settled') => viewer.frames(type).map(({ position }) => position);
  const inLog = (type: string) =>
    log.flatMap(({ event, position }) => (event.type === type ? [position] : []));
  expect(of('started')).toEqual(inLog('request.accepted'));
  expect(of('settled')).toEqual(inLog('request.settled'));
  expect(viewer.frames('gap')).toEqual([]);
});
