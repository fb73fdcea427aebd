import { cp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { originOf } from '#db/fold/signing.ts';
import { signCheckpoint } from '#db/tlog/checkpoint.ts';
import { formatVerifierKey, parseVerifierKey, type Signer, signerOf } from '#db/tlog/note.ts';
import { readSigners } from '#db/tlog/signing-key.ts';
import { readRoot, readStanding } from '#db/tlog/standing.ts';
import { accepted, connectAs, openLivingWriter } from '../../support/log/log-writer.ts';
import { publishNow } from '../../support/audit/publishing.ts';
import { startRelay, until } from '../../support/relay.ts';
import {
  asSuperuser,
  type Lie,
  line,
  lookOnce,
  newPem,
  sizeIn,
  startWitnessed,
  type Witnessed,
  WitnessPlace,
} from '../../support/audit/witnessed-log.ts';

/** A witness before logs that are not what they were, as the operator himself could make them. */

let log: Witnessed;
/** Each test has a witness of its own that has signed nothing yet. */
let own: Awaited<ReturnType<Witnessed['next']>>;
beforeAll(async () => {
  log = await startWitnessed(20);
});
afterAll(() => log?.[Symbol.asyncDispose]());
beforeEach(async () => {
  own = await log.next();
});
afterEach(() => log.proxy.say(() => null));
const look = (...more: string[]) => lookOnce(own, log, ...more);

/** Signs a head of the log's choice with the log's own key, as an operator could who wants to lie. */
async function signAs(head: { size: number; root: Buffer }, signers?: readonly Signer[]): Promise<string> {
  const client = await connectAs(log.relay.store, 'auditor');
  const { origin } = await readStanding(client);
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

test('a witness that runs on signs what comes, complains once of what is not well, and ends with the first alarm', async () => {
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
  log.proxy.say(() => ({ status: 502, text: 'bad gateway' }));
  const size = await log.grow();
  log.proxy.say(() => null);
  await until(log.shown, (note) => note.includes(own.name), 'the next cosignature');
  const note = await signAs({ size, root: Buffer.alloc(32, 7) });
  log.proxy.say((place) => (place === '/log/checkpoint' ? { status: 200, text: note } : null));
  const { code, stdout, stderr } = await running;
  expect([code, stdout]).toEqual([2, expect.stringContaining(own.key)]);
  expect(stderr).toMatch(/ALARM \(forked\)/);
  expect(stderr.match(/shows no checkpoint/g)?.length ?? 0).toBeLessThanOrEqual(1);
});

describe('a witness refuses, keeps the evidence and signs nothing any more', () => {
  /** What each lie is shown as in place of the newest checkpoint, after one good one was signed. */
  const LIES: [what: string, alarm: string, make: (size: number) => Promise<Lie>][] = [
    [
      'is cut',
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
      'is cut and rewritten',
      'shorter',
      async (size) => {
        const note = await signAs({ size: size - 4, root: Buffer.alloc(32, 7) });
        return (place) => (place === '/log/checkpoint' ? { status: 200, text: note } : null);
      },
    ],
    [
      'is another of the same size',
      'forked',
      async (size) => {
        const note = await signAs({ size, root: Buffer.alloc(32, 7) });
        return (place) => (place === '/log/checkpoint' ? { status: 200, text: note } : null);
      },
    ],
    [
      'does not begin with what was signed',
      'inconsistent',
      async () => {
        const size = await log.grow();
        const note = await signAs({ size, root: Buffer.alloc(32, 7) });
        return (place) => (place === '/log/checkpoint' ? { status: 200, text: note } : null);
      },
    ],
    [
      'is proved by changed bytes',
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
      'is of another epoch',
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
      'is signed by a key that nobody knows',
      'unknown_key',
      async (size) => {
        const note = await signAs({ size: size + 1, root: Buffer.alloc(32, 7) }, [
          signerOf(parseVerifierKey(log.logKey).name, 'ed25519', newPem()),
        ]);
        return (place) => (place === '/log/checkpoint' ? { status: 200, text: note } : null);
      },
    ],
    [
      'has a signature that its key did not make',
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

  test.each(LIES)('a log that %s', async (_what, alarm, make) => {
    await look();
    const size = await own.signed();
    const known = await readFile(path.join(own.state, 'checkpoint'), 'utf8');
    const history = await readdir(own.state);
    const handedIn = log.proxy.taken();
    log.proxy.say(await make(size));
    const seen = await (await fetch(`${log.proxy.address}/log/checkpoint`)).text();
    const { code, stdout, stderr } = await look();
    expect([code, stdout, stderr]).toEqual([2, '', expect.stringMatching(`^daybook: ALARM \\(${alarm}\\) `)]);
    expect(await own.evidence()).toMatchObject({ alarm, known, shown: seen });
    expect([await own.signed(), log.proxy.taken()]).toEqual([size, handedIn]);
    // What comes after it, good as it may look, is not signed either.
    log.proxy.say(() => null);
    expect(await look()).toMatchObject({ code: 2, stderr: expect.stringContaining('ALARM') as string });
    expect([await own.signed(), log.proxy.taken()]).toEqual([size, handedIn]);
    expect((await readdir(own.state)).toSorted()).toEqual([...history, 'alarm'].toSorted());
  });

  test('a server that was really cut, with the checkpoints in its database, its directory and its tree', async () => {
    await using server = await startRelay({ env: { WITNESSES: own.key } });
    await using filling = await openLivingWriter(server.store);
    const places = { keyFile: path.join(log.home, 'own-key'), directory: path.join(log.home, 'own') };
    const address = `http://127.0.0.1:${server.port}`;
    const lastShown = async (): Promise<number> =>
      sizeIn(await (await fetch(`${address}/log/checkpoint`)).text());
    await filling.append(Array.from({ length: 600 }, () => accepted()));
    const { size } = (await publishNow(server.store, places)) as { size: number };
    const key = (await (await fetch(`${address}/log/keys`)).text()).trim();
    const args = ['witness', '--state', own.state, '--log', address, '--key', key, '--once'];
    expect(await line.daybook(...args)).toMatchObject({ code: 0, stderr: '' });
    await using superuser = await asSuperuser(server);
    await superuser.client
      .query(`delete from daybook.log_batch where last_position > 100; delete from daybook.log where position > (select max(last_position) from daybook.log_batch);
      delete from daybook.stream_head where stream = 'log'; delete from daybook.log_node; delete from daybook.checkpoint; delete from daybook.cosignature`);
    await rm(places.directory, { recursive: true });
    await publishNow(server.store, places);
    expect(await until(lastShown, (shownSize) => shownSize < size, 'the cut log')).toBeLessThan(size);
    expect(await line.daybook(...args)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('ALARM (shorter)') as string,
    });
    expect(sizeIn((await own.evidence()).known as string)).toBe(size);
    // Grown again beyond what was signed it is found all the same.
    await rm(path.join(own.state, 'alarm'));
    await filling.append(Array.from({ length: 700 }, () => accepted()));
    await publishNow(server.store, places);
    await until(lastShown, (shownSize) => shownSize > size, 'the log that grew again');
    expect(await line.daybook(...args)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('ALARM (inconsistent)') as string,
    });
  });

  test('its own state, where that was put back: by its history, or by its signature that the log shows', async () => {
    await look();
    const before = path.join(log.home, 'before');
    await cp(own.state, before, { recursive: true });
    await log.grow();
    await look();
    const newest = await readFile(path.join(own.state, 'checkpoint'), 'utf8');
    // Only the checkpoint was put back.
    const halfway = path.join(log.home, 'halfway');
    await cp(own.state, halfway, { recursive: true });
    await cp(path.join(before, 'checkpoint'), path.join(halfway, 'checkpoint'));
    await until(log.shown, (note) => note.includes(own.name), 'the cosignature');
    for (const back of [halfway, before, own.made]) {
      const putBack = new WitnessPlace(path.join(log.home, `put-back-${path.basename(back)}`));
      await cp(back, putBack.state, { recursive: true });
      expect([back, await lookOnce(putBack, log)]).toMatchObject([
        back,
        { code: 2, stderr: expect.stringContaining('ALARM (rolled_back)') as string },
      ]);
      expect(sizeIn((await putBack.evidence()).shown)).toBe(sizeIn(newest));
    }
  });

  test('until a person accepts one of the two checkpoints, by its size', async () => {
    await look();
    const size = await own.signed();
    const note = await signAs({ size: size - 3, root: await rootOf(size - 3) });
    log.proxy.say((place) =>
      place === '/log/checkpoint'
        ? { status: 200, text: note }
        : place.startsWith('/log/consistency')
          ? { status: 400, text: '' }
          : null,
    );
    expect((await look()).code).toBe(2);
    expect(await look('--accept', String(size - 1))).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('neither') as string,
    });
    expect((await look()).code).toBe(2);
    const [keeps, takes] = [
      new WitnessPlace(path.join(log.home, 'keeps')),
      new WitnessPlace(path.join(log.home, 'takes')),
    ];
    for (const { state } of [keeps, takes]) await cp(own.state, state, { recursive: true });
    log.proxy.say(() => null);
    expect(await lookOnce(keeps, log, '--accept', String(size))).toMatchObject({ code: 0, stderr: '' });
    expect(await keeps.signed()).toBe(size);
    log.proxy.say((place) => (place === '/log/checkpoint' ? { status: 200, text: note } : null));
    expect(await lookOnce(takes, log, '--accept', String(size - 3))).toMatchObject({ code: 0 });
    expect(await takes.signed()).toBe(size - 3);
    expect((await readdir(takes.state)).some((name) => name.startsWith('alarm-accepted-'))).toBe(true);
    log.proxy.say(() => null);
    await log.grow();
    expect(await lookOnce(takes, log)).toMatchObject({ code: 0 });
  });

  test('and tells a webhook, with the evidence', async () => {
    await look();
    const told: unknown[] = [];
    const server = createServer((request, response) => {
      let body = '';
      request.on('data', (part: Buffer) => (body += part.toString()));
      request.on('end', () => {
        told.push(JSON.parse(body));
        response.end();
      });
    });
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
    const note = await signAs({ size: await own.signed(), root: Buffer.alloc(32, 7) });
    log.proxy.say((place) => (place === '/log/checkpoint' ? { status: 200, text: note } : null));
    const webhook = `http://127.0.0.1:${(server.address() as AddressInfo).port}/secret-path`;
    const { code, stderr } = await look('--webhook', webhook);
    expect([code, stderr.includes('secret-path')]).toEqual([2, false]);
    expect(told).toEqual([{ type: 'witness.alarm', ...(await own.evidence()) }]);
    await new Promise((resolve) => server.close(resolve));
    // Nobody being there is no reason to be silent.
    expect(await look('--webhook', webhook)).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/ALARM[^]*could not be told/) as string,
    });
  });

  test('a checkpoint of its own that somebody has changed', async () => {
    await look();
    const file = path.join(own.state, 'checkpoint');
    await writeFile(file, (await readFile(file, 'utf8')).replace(/^daybook/, 'nonsense'));
    const { code, stderr } = await look();
    expect([code, stderr]).toEqual([1, expect.stringContaining('the key is of another log')]);
    await writeFile(file, 'nonsense');
    expect(await look()).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('is not what this witness has written') as string,
    });
  });
});

test("a first look with another log's key signs nothing", async () => {
  const other = formatVerifierKey(signerOf(parseVerifierKey(log.logKey).name, 'ed25519', newPem()));
  const handedIn = log.proxy.taken();
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
  expect([code, log.proxy.taken()]).toEqual([2, handedIn]);
  await expect(readFile(path.join(own.state, 'checkpoint'))).rejects.toThrow('ENOENT');
});
