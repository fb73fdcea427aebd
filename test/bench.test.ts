import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { array, assert, nat, property } from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Expectation } from '../bench/driver/connection.ts';
import { Histogram } from '../bench/driver/histogram.ts';
import { Traffic } from '../bench/driver/traffic.ts';
import type { LadderRun } from '../bench/ladder.ts';
import type { Summary } from '../bench/summary.ts';
import { makeTestDirectory, removeTestDirectory } from './support/directory.ts';

const BENCH = join(import.meta.dirname, '../bench/main.ts');
const TINY = '--rounds 1 --secs 0.1 --warmup 0.1 --keys 100 --neighbors 64'.split(' ');
/** Of the streams of 2 s some end in the measured time. */
const FEW_STREAMS = '--connections 8 --secs 0.3 --warmup 0.4'.split(' ');

/** Runs the bench as a person does, and reads the figures it leaves. */
async function runBench(...args: string[]): Promise<{
  summaries: Summary[];
  rounds: Record<string, number>[];
  ladder: LadderRun[];
  chunkCosts: { reader: string; cpuUs: number; timesPassthrough: number }[];
  goals: object[];
  shares: { kind: string; name: string }[];
}> {
  const directory = await makeTestDirectory();
  try {
    const out = join(directory, 'figures.json');
    await promisify(execFile)(process.execPath, [BENCH, ...TINY, ...args, '--out', out], {
      env: { ...process.env, TMPDIR: directory },
    }).catch((error: Error & { code: unknown }) => {
      // The code for wrong replies, which are in the figures.
      if (error.code !== 1) throw error;
    });
    return JSON.parse(await readFile(out, 'utf8'));
  } finally {
    await removeTestDirectory(directory);
  }
}

describe.skipIf(process.platform !== 'linux')('the bench', { timeout: 300_000 }, () => {
  test('compares every reader of streams with the one that lets them pass', async () => {
    const { chunkCosts, goals } = await runBench('translation');
    expect(
      chunkCosts
        .filter(({ reader }) => reader === 'passthrough')
        .map(({ timesPassthrough }) => timesPassthrough),
    ).toEqual([1, 1, 1, 1]);
    expect(chunkCosts.every(({ cpuUs }) => cpuUs > 0)).toBe(true);
    // Three readers of upstreams, and each protocol of clients over each other one.
    expect(goals).toHaveLength(3 + 12);
  });

  test('profiles the CPU time and the allocations of a call by function', async () => {
    const { shares } = await runBench('profile', '--work', 'json');
    for (const profiled of ['cpu', 'allocation']) {
      const names = shares.filter(({ kind }) => kind === profiled).map(({ name }) => name);
      expect(names).toContainEqual(expect.stringContaining('server/relay/'));
    }
  });

  test('measures every target without one wrong reply', async () => {
    const { summaries } = await runBench(
      '--only',
      'direct,bare,daybook',
      '--work',
      // At no rate of its own, which a busy machine could not keep up with.
      'near,chat-40',
      ...FEW_STREAMS,
      // On a busy machine a call near the end of a quota takes longer than the few streams are measured.
      ...['--secs', '1'],
    );
    expect(summaries.map(({ workload, target }) => `${workload} ${target}`)).toEqual(
      ['near', 'chat-40'].flatMap((workload) =>
        ['direct', 'bare', 'daybook'].map((target) => `${workload} ${target}`),
      ),
    );
    for (const summary of summaries) {
      const { workload, target } = summary;
      const ofServer = ['serverCpuUs', 'serverShare', 'cpuOverBare', 'rssMb'] as const;
      const ofStore = ['postgresCpuUs', 'postgresShare', 'exchangesPerThousand'] as const;
      const figures = [
        'perSecond' as const,
        ...(workload !== 'chat-40'
          ? (['latencyP50Ms', 'latencyP99Ms', 'addedP50Ms', 'addedP99Ms'] as const)
          : []),
        ...(workload === 'chat-40' ? (['chunkDelayP50Us', 'addedChunkDelayP50Us'] as const) : []),
        ...(target === 'direct' ? [] : ofServer),
        ...(target === 'daybook' ? ofStore : []),
      ];
      expect(summary.errors, `${workload} ${target}`).toEqual({});
      for (const figure of figures)
        expect(summary[figure], `${workload} ${target} ${figure}`).toSatisfy(Number.isFinite);
    }
  });

  test('measures another gateway by its description', async () => {
    const directory = await makeTestDirectory();
    try {
      const description = {
        command: ['node', '${installed}/bare.ts', '${port}', '${upstreamPort}'],
        headers: { 'x-provider': 'http://127.0.0.1:${upstreamPort}' },
      };
      const file = join(directory, 'peer.json');
      await writeFile(file, JSON.stringify(description));
      const peer = `${file}=${join(import.meta.dirname, '../bench/targets')}`;
      const { summaries } = await runBench('--only', 'direct', '--work', 'json', '--gateway', peer);
      expect(summaries.map(({ target, errors }) => [target, errors])).toEqual([
        ['direct', {}],
        ['peer', {}],
      ]);
      expect(summaries[1]?.serverCpuUs).toBeGreaterThan(0);
    } finally {
      await removeTestDirectory(directory);
    }
  });

  test('measures every process of an installation at a steady rate', async () => {
    const { ladder } = await runBench('ladder', '--rates', '100');
    expect(ladder.map(({ viewers }) => viewers)).toEqual([0, 1]);
    for (const { cpu, errors, neighbors, pssMb } of ladder) {
      expect(errors).toEqual({});
      for (const part of ['server', 'worker', 'postgres']) expect(cpu[part]).toBeGreaterThan(0);
      expect(Object.keys(cpu).filter((name) => name.startsWith('pg ')).length).toBeGreaterThan(5);
      expect([neighbors >= 0, pssMb > 0]).toEqual([true, true]);
    }
  });

  test('measures the log from both sides', async () => {
    const { rounds } = await runBench('log');
    expect(rounds).toHaveLength(1);
    for (const [name, figure] of Object.entries(rounds[0] ?? {})) expect(figure, name).toBeGreaterThan(0);
  });
});

/** A reply of known length, as bytes on the wire; all texts here are ASCII. */
function sized(body: string, status = '200 OK'): string {
  return `HTTP/1.1 ${status}\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
}

/** A reply in HTTP chunks. */
function chunked(...pieces: string[]): string {
  const frames = pieces.map((piece) => `${piece.length.toString(16)}\r\n${piece}\r\n`);
  return `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${frames.join('')}0\r\n\r\n`;
}

/** The errors that the driver counts for one exchange whose reply is these bytes, sent in pieces. */
async function errorsFor(
  expected: Expectation,
  reply: string,
  pieceBytes: number,
): Promise<Record<string, number>> {
  const server = createServer((socket) => {
    socket.setNoDelay(true);
    socket.once('data', () => {
      for (let at = 0; at < reply.length; at += pieceBytes) socket.write(reply.slice(at, at + pieceBytes));
      socket.end();
    });
    socket.on('error', () => socket.destroy());
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the server has no port');
  const traffic = new Traffic({
    port: address.port,
    request: Buffer.from('POST / HTTP/1.1\r\n\r\n'),
    expect: expected,
  });
  traffic.fire();
  await traffic.windDown(10);
  server.close();
  return traffic.seen().errors;
}

describe('the load driver', () => {
  const sse: Expectation = { status: 200, sse: true, chunks: 2, replyBytes: null, usageChunk: false };
  const json: Expectation = { status: 200, sse: false, chunks: null, replyBytes: 20, usageChunk: false };
  const held = '#0000000000000009';
  const chunk = 'data: @0000000000000001\n\n';
  const done = 'data: [DONE]\n\n';

  test.each([1, 7, 100_000])('takes right replies in pieces of %i bytes', async (pieceBytes) => {
    expect(await errorsFor(json, sized(held.padEnd(20)), pieceBytes)).toEqual({});
    expect(await errorsFor(sse, chunked(held, chunk, chunk, done), pieceBytes)).toEqual({});
  });

  test.each<[string, Expectation, string]>([
    ['another status', json, sized('{"error":{}}', '500 Internal Server Error')],
    ['a body that is too short', json, sized(held)],
    ['a body that did not come from the upstream', json, sized('x'.repeat(20))],
    ['a body that is cut', json, sized(held.padEnd(20)).slice(0, -1)],
    ['a lost chunk', sse, chunked(held, chunk, done)],
    ['a chunk too many', sse, chunked(held, chunk, chunk, chunk, done)],
    ['a missing [DONE]', sse, chunked(held, chunk, chunk)],
    [
      'a usage chunk that nobody asked for',
      sse,
      chunked(held, chunk, chunk, 'data: {"choices":[]}\n\n', done),
    ],
    ['a missing usage chunk', { ...sse, usageChunk: true }, chunked(held, chunk, chunk, done)],
    ['a stream without an end', sse, chunked(held, chunk, chunk, done).slice(0, -5)],
    ['something that is not HTTP', json, 'hello\r\n\r\n'],
    ['a refusal without an error object', { ...json, status: 401 }, sized('no', '401 Unauthorized')],
  ])('counts %s as an error', async (_what, expected, reply) => {
    expect(Object.values(await errorsFor(expected, reply, 100_000))).toEqual([1]);
  });

  test('knows a quantile to a thousandth of its value', () => {
    assert(
      property(array(nat(2 ** 31), { minLength: 1 }), (values) => {
        const histogram = new Histogram();
        for (const value of values) histogram.add(value);
        const median =
          values.toSorted((left, right) => left - right)[Math.ceil(values.length / 2) - 1] ?? Number.NaN;
        const { p50 } = histogram.quantiles();
        expect(p50).toBeLessThanOrEqual(median);
        expect(p50).toBeGreaterThanOrEqual(median * (1 - 1 / 1000));
      }),
    );
  });
});
