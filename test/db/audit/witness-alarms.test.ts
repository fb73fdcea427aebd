import { cp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { originOf } from '#db/fold/signing.ts';
import { signCheckpoint } from '#db/tlog/checkpoint.ts';
import { formatVerifierKey, parseVerifierKey, type Signer, signerOf } from '#db/tlog/note.ts';
import { readSigners } from '#db/tlog/signing-key.ts';
import { readRoot, readLogState } from '#db/tlog/log-state.ts';
import { accepted, connectAs, openLivingWriter } from '../../support/log/log-writer.ts';
import { publishNow } from '../../support/audit/publishing.ts';
import { startRelay, until } from '../../support/relay.ts';
import {
  asSuperuser,
  type Forgery,
  line,
  pollOnce,
  newPem,
  sizeIn,
  startWitnessedLog,
  type WitnessedLog,
  WitnessDirectory,
} from '../../support/audit/witnessed-log.ts';

/** The witness command against logs that are inconsistent, as a dishonest operator could make them. */

let log: WitnessedLog;
/** Each test has a witness of its own that has cosigned nothing yet. */
let own: Awaited<ReturnType<WitnessedLog['next']>>;
beforeAll(async () => {
  log = await startWitnessedLog(20);
});
afterAll(() => log?.[Symbol.asyncDispose]());
beforeEach(async () => {
  own = await log.next();
});
afterEach(() => log.proxy.respond(() => null));
const poll = (...more: string[]) => pollOnce(own, log, ...more);

/** Signs any tree head with the log's own key, as a dishonest operator could. */
async function signAs(head: { size: number; root: Buffer }, signers?: readonly Signer[]): Promise<string> {
  const client = await connectAs(log.relay.store, 'auditor');
  const { origin } = await readLogState(client);
  await client.end();
  return signCheckpoint(
    { origin, ...head },
    signers ?? (readSigners(log.publishing.keyFile, origin) as Signer[]),
  );
}

async function rootOf(size: number): Promise<Buffer> {
  const client = await connectAs(log.relay.store, 'auditor');
  try {
    return await readRoot(client, size);
  } finally {
    await client.end();
  }
}

test('witness: keeps cosigning, prints a persistent warning once, and exits on the first alarm', async () => {
  const running = line.daybook(
    'witness',
    '--state',
    own.state,
    '--log',
    log.proxy.address,
    '--key',
    log.logKey,
    '--every',
    '1',
  );
  await until(log.shown, (note) => note.includes(own.name), 'the cosignature');
  log.proxy.respond(() => ({ status: 502, text: 'bad gateway' }));
  const size = await log.grow();
  log.proxy.respond(() => null);
  await until(log.shown, (note) => note.includes(own.name), 'the next cosignature');
  const note = await signAs({ size, root: Buffer.alloc(32, 7) });
  log.proxy.respond((place) => (place === '/log/checkpoint' ? { status: 200, text: note } : null));
  const { code, stdout, stderr } = await running;
  expect([code, stdout]).toEqual([2, expect.stringContaining(own.key)]);
  expect(stderr).toMatch(/ALARM \(forked\)/);
  expect(stderr.match(/serves no checkpoint/g)?.length ?? 0).toBeLessThanOrEqual(1);
});

describe('witness alarms: keep the evidence and stop signing', () => {
  /** Each forged response, served after one valid checkpoint was cosigned. */
  const FORGERIES: [what: string, alarm: string, make: (size: number) => Promise<Forgery>][] = [
    [
      'is truncated',
      'shorter',
      async (size) => {
        const note = await signAs({ size: size - 4, root: await rootOf(size - 4) });
        return (place) =>
          place === '/log/checkpoint'
            ? { status: 200, text: note }
            : place.startsWith('/log/consistency')
              ? { status: 400, text: '{"error":{"code":"invalid_value"}}' }
              : null;
      },
    ],
    [
      'is truncated and rewritten',
      'shorter',
      async (size) => {
        const note = await signAs({ size: size - 4, root: Buffer.alloc(32, 7) });
        return (place) => (place === '/log/checkpoint' ? { status: 200, text: note } : null);
      },
    ],
    [
      'has another root at the same size',
      'forked',
      async (size) => {
        const note = await signAs({ size, root: Buffer.alloc(32, 7) });
        return (place) => (place === '/log/checkpoint' ? { status: 200, text: note } : null);
      },
    ],
    [
      'is not consistent with the cosigned checkpoint',
      'inconsistent',
      async () => {
        const size = await log.grow();
        const note = await signAs({ size, root: Buffer.alloc(32, 7) });
        return (place) => (place === '/log/checkpoint' ? { status: 200, text: note } : null);
      },
    ],
    [
      'serves an altered consistency proof',
      'inconsistent',
      async () => {
        await log.grow();
        return (place, { status, text }) =>
          place.startsWith('/log/consistency')
            ? { status, text: text.replace(/^./, (first) => (first === 'A' ? 'B' : 'A')) }
            : null;
      },
    ],
    [
      'has another epoch',
      'another_log',
      async (size) => {
        const origin = `${parseVerifierKey(log.logKey).name}/2`;
        expect(origin).toBe(originOf(parseVerifierKey(log.logKey).name.replace('daybook/', ''), 2));
        const note = signCheckpoint({ origin, size: size + 1, root: Buffer.alloc(32, 7) }, [
          signerOf(origin, 'ed25519', newPem()),
        ]);
        return (place) => (place === '/log/checkpoint' ? { status: 200, text: note } : null);
      },
    ],
    [
      'is signed by an unknown key',
      'unknown_key',
      async (size) => {
        const note = await signAs({ size: size + 1, root: Buffer.alloc(32, 7) }, [
          signerOf(parseVerifierKey(log.logKey).name, 'ed25519', newPem()),
        ]);
        return (place) => (place === '/log/checkpoint' ? { status: 200, text: note } : null);
      },
    ],
    [
      'has an invalid signature',
      'unknown_key',
      async (size) => {
        await log.grow();
        return (place, { status, text }) =>
          place === '/log/checkpoint'
            ? { status, text: text.replace(`\n${sizeIn(text)}\n`, `\n${size + 1_000}\n`) }
            : null;
      },
    ],
  ];

  test.each(FORGERIES)('alarm: a log that %s', async (_what, alarm, make) => {
    await poll();
    const size = await own.signed();
    const known = await readFile(path.join(own.state, 'checkpoint'), 'utf8');
    const history = await readdir(own.state);
    const submitted = log.proxy.submissions();
    log.proxy.respond(await make(size));
    const seen = await (await fetch(`${log.proxy.address}/log/checkpoint`)).text();
    const { code, stdout, stderr } = await poll();
    expect([code, stdout, stderr]).toEqual([2, '', expect.stringMatching(`^daybook: ALARM \\(${alarm}\\) `)]);
    expect(await own.evidence()).toMatchObject({ alarm, known, shown: seen });
    expect([await own.signed(), log.proxy.submissions()]).toEqual([size, submitted]);
    // A later checkpoint is not cosigned either, even if it is valid.
    log.proxy.respond(() => null);
    expect(await poll()).toMatchObject({ code: 2, stderr: expect.stringContaining('ALARM') as string });
    expect([await own.signed(), log.proxy.submissions()]).toEqual([size, submitted]);
    expect((await readdir(own.state)).toSorted()).toEqual([...history, 'alarm'].toSorted());
  });

  test('alarm: a server whose log, tree, stored and published checkpoints were all truncated', async () => {
    await using server = await startRelay({ env: { WITNESSES: own.key } });
    await using filling = await openLivingWriter(server.store);
    const places = { keyFile: path.join(log.home, 'own-key'), directory: path.join(log.home, 'own') };
    const address = `http://127.0.0.1:${server.port}`;
    const newestSize = async (): Promise<number> =>
      sizeIn(await (await fetch(`${address}/log/checkpoint`)).text());
    await filling.append(Array.from({ length: 600 }, () => accepted()));
    const { size } = (await publishNow(server.store, places)) as { size: number };
    const key = (await (await fetch(`${address}/log/keys`)).text()).trim();
    const args = ['witness', '--state', own.state, '--log', address, '--key', key, '--once'];
    expect(await line.daybook(...args)).toMatchObject({ code: 0, stderr: '' });
    await using superuser = await asSuperuser(server);
    await superuser.client
      .query(`delete from daybook.log_batch where last_position > 100; delete from daybook.log
        where last_position > (select max(last_position) from daybook.log_batch);
      delete from daybook.stream_head where stream = 'log'; delete from daybook.log_node; delete
        from daybook.checkpoint; delete from daybook.cosignature`);
    await rm(places.directory, { recursive: true });
    await publishNow(server.store, places);
    expect(await until(newestSize, (served) => served < size, 'the truncated log')).toBeLessThan(size);
    expect(await line.daybook(...args)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('ALARM (shorter)') as string,
    });
    expect(sizeIn((await own.evidence()).known as string)).toBe(size);
    // It is detected even after the log has grown beyond the cosigned size.
    await rm(path.join(own.state, 'alarm'));
    await filling.append(Array.from({ length: 700 }, () => accepted()));
    await publishNow(server.store, places);
    await until(newestSize, (served) => served > size, 'the log that grew again');
    expect(await line.daybook(...args)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('ALARM (inconsistent)') as string,
    });
  });

  test('alarm: its own state was restored from a backup, as its history or the log shows', async () => {
    await poll();
    const before = path.join(log.home, 'before');
    await cp(own.state, before, { recursive: true });
    await log.grow();
    await poll();
    const newest = await readFile(path.join(own.state, 'checkpoint'), 'utf8');
    // Only the checkpoint was restored.
    const halfway = path.join(log.home, 'halfway');
    await cp(own.state, halfway, { recursive: true });
    await cp(path.join(before, 'checkpoint'), path.join(halfway, 'checkpoint'));
    await until(log.shown, (note) => note.includes(own.name), 'the cosignature');
    for (const back of [halfway, before, own.made]) {
      const restored = new WitnessDirectory(path.join(log.home, `restored-${path.basename(back)}`));
      await cp(back, restored.state, { recursive: true });
      expect([back, await pollOnce(restored, log)]).toMatchObject([
        back,
        { code: 2, stderr: expect.stringContaining('ALARM (rolled_back)') as string },
      ]);
      expect(sizeIn((await restored.evidence()).shown)).toBe(sizeIn(newest));
    }
  });

  test('alarm: is cleared when an operator accepts one of the two checkpoints by its size', async () => {
    await poll();
    const size = await own.signed();
    const note = await signAs({ size: size - 3, root: await rootOf(size - 3) });
    log.proxy.respond((place) =>
      place === '/log/checkpoint'
        ? { status: 200, text: note }
        : place.startsWith('/log/consistency')
          ? { status: 400, text: '' }
          : null,
    );
    expect((await poll()).code).toBe(2);
    expect(await poll('--accept', String(size - 1))).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('neither') as string,
    });
    expect((await poll()).code).toBe(2);
    const [last, served] = [
      new WitnessDirectory(path.join(log.home, 'last')),
      new WitnessDirectory(path.join(log.home, 'served')),
    ];
    for (const { state } of [last, served]) await cp(own.state, state, { recursive: true });
    log.proxy.respond(() => null);
    expect(await pollOnce(last, log, '--accept', String(size))).toMatchObject({ code: 0, stderr: '' });
    expect(await last.signed()).toBe(size);
    log.proxy.respond((place) => (place === '/log/checkpoint' ? { status: 200, text: note } : null));
    expect(await pollOnce(served, log, '--accept', String(size - 3))).toMatchObject({ code: 0 });
    expect(await served.signed()).toBe(size - 3);
    expect((await readdir(served.state)).some((name) => name.startsWith('alarm-accepted-'))).toBe(true);
    log.proxy.respond(() => null);
    await log.grow();
    expect(await pollOnce(served, log)).toMatchObject({ code: 0 });
  });

  test('alarm: is posted to the webhook with its evidence', async () => {
    await poll();
    const received: unknown[] = [];
    const server = createServer((request, response) => {
      let body = '';
      request.on('data', (part: Buffer) => (body += part.toString()));
      request.on('end', () => {
        received.push(JSON.parse(body));
        response.end();
      });
    });
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
    const note = await signAs({ size: await own.signed(), root: Buffer.alloc(32, 7) });
    log.proxy.respond((place) => (place === '/log/checkpoint' ? { status: 200, text: note } : null));
    const webhook = `http://127.0.0.1:${(server.address() as AddressInfo).port}/secret-path`;
    const { code, stderr } = await poll('--webhook', webhook);
    expect([code, stderr.includes('secret-path')]).toEqual([2, false]);
    expect(received).toEqual([{ type: 'witness.alarm', ...(await own.evidence()) }]);
    await new Promise((resolve) => server.close(resolve));
    // An unreachable webhook does not suppress the alarm.
    expect(await poll('--webhook', webhook)).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/ALARM[^]*could not be sent/) as string,
    });
  });

  test('witness: a modified checkpoint in the state directory is an error', async () => {
    await poll();
    const file = path.join(own.state, 'checkpoint');
    await writeFile(file, (await readFile(file, 'utf8')).replace(/^daybook/, 'nonsense'));
    const { code, stderr } = await poll();
    expect([code, stderr]).toEqual([1, expect.stringContaining('the given key is of another log')]);
    await writeFile(file, 'nonsense');
    expect(await poll()).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('was modified') as string,
    });
  });
});

test("witness: the first poll with another log's key signs nothing", async () => {
  const other = formatVerifierKey(signerOf(parseVerifierKey(log.logKey).name, 'ed25519', newPem()));
  const submitted = log.proxy.submissions();
  const { code } = await line.daybook(
    'witness',
    '--state',
    own.state,
    '--log',
    log.proxy.address,
    '--key',
    other,
    '--once',
  );
  expect([code, log.proxy.submissions()]).toEqual([2, submitted]);
  await expect(readFile(path.join(own.state, 'checkpoint'))).rejects.toThrow('ENOENT');
});
