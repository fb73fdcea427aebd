import { cp, readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { WitnessState } from '#db/audit/witness/witness-state.ts';
import { openCheckpoint } from '#db/tlog/checkpoint.ts';
import { parseVerifierKey } from '#db/tlog/note.ts';
import { addSigningKey, dropOldKey } from '#db/tlog/signing-key.ts';
import { until } from '../../support/relay.ts';
import {
  asSuperuser,
  type Lie,
  line,
  lookOnce,
  sizeIn,
  startWitnessed,
  type Witnessed,
} from '../../support/audit/witnessed-log.ts';

/** A witness, as its command runs it, before a real server that is well, away or confused. */

let log: Witnessed;
/** Each test has a witness of its own that has signed nothing yet. */
let own: Awaited<ReturnType<Witnessed['next']>>;
beforeAll(async () => {
  log = await startWitnessed(16);
});
afterAll(() => log?.[Symbol.asyncDispose]());
beforeEach(async () => {
  own = await log.next();
});
afterEach(() => log.proxy.say(() => null));
const look = (...more: string[]) => lookOnce(own, log, ...more);

describe('a witness', () => {
  test('makes its key once, for itself alone to read, and prints what the operator has to know', async () => {
    expect(own.key).toMatch(/^w\d+\.example\+[0-9a-f]{8}\+B/);
    expect((await stat(path.join(own.state, 'key'))).mode & 0o777).toBe(0o600);
    expect((await line.text('witness', '--state', own.state)).trim()).toBe(own.key);
    const { code, stderr } = await line.daybook('witness', '--state', own.state, '--name', 'another.example');
    expect([code, stderr]).toEqual([1, expect.stringContaining(`is ${own.name}`)]);
    expect((await line.daybook('witness', '--state', path.join(log.home, 'nameless'))).stderr).toContain(
      '--name is needed',
    );
    expect(
      (await line.daybook('witness', '--state', own.state, '--log', log.proxy.address, '--once')).stderr,
    ).toContain('--key is needed');
  });

  test('signs each newest checkpoint of a log that has only grown; the log shows it, and so does its own history', async () => {
    const sizes: number[] = [];
    for (const more of [0, 1, 300]) {
      if (more > 0) await log.grow(more);
      const { code, stdout, stderr } = await look();
      expect([code, stderr]).toEqual([0, '']);
      expect(stdout).toContain(own.key);
      sizes.push(await own.signed());
      const { verified, checkpoint } = openCheckpoint(
        await until(log.shown, (note) => note.includes(own.name), 'the cosignature'),
        [parseVerifierKey(log.logKey), parseVerifierKey(own.key)],
      );
      expect([checkpoint.size, verified.map(({ verifier }) => verifier.name)]).toEqual([
        await own.signed(),
        [checkpoint.origin, own.name],
      ]);
      expect(Math.abs((verified[1]?.timeSecs ?? 0) - Date.now() / 1_000)).toBeLessThan(60);
    }
    const [history = ''] = (await readdir(own.state)).filter((name) => name.startsWith('history-'));
    const notes = (await readFile(path.join(own.state, history), 'utf8')).split('\n\n');
    expect([0, 2, 4].map((at) => Number(notes[at]?.split('\n')[1]))).toEqual(sizes);
    for (const at of [0, 2, 4])
      openCheckpoint(`${notes[at]}\n\n${notes[at + 1]}\n`, [
        parseVerifierKey(log.logKey),
        parseVerifierKey(own.key),
      ]);
    const again = JSON.parse((await look('--json')).stdout) as object;
    expect(again).toMatchObject({ witness: own.name, size: sizes.at(-1), is_new: false });
  });

  test('hands in again what the log did not take, and says so without an alarm', async () => {
    log.proxy.say((place) => (place === '/log/cosignatures' ? { status: 503, text: '{}' } : null));
    expect(await look()).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('did not take the cosignature') as string,
    });
    expect(await log.shown()).not.toContain(own.name);
    log.proxy.say(() => null);
    expect(await look()).toMatchObject({ code: 0, stderr: '' });
    expect(await until(log.shown, (note) => note.includes(own.name), 'the cosignature')).toContain(
      `\n${await own.signed()}\n`,
    );
  });

  test.each<[string, Lie]>([
    ['is away', () => ({ status: 502, text: 'bad gateway' })],
    ['shows a page of somebody else', () => ({ status: 200, text: '<html>Sign in to this network</html>' })],
    ['shows far too much', () => ({ status: 200, text: 'x'.repeat(1_000_000) })],
    [
      'has no proof',
      (place) => (place.startsWith('/log/consistency') ? { status: 404, text: 'not found' } : null),
    ],
    [
      'sends what is no proof',
      (place) => (place.startsWith('/log/consistency') ? { status: 200, text: 'AAAA\n' } : null),
    ],
  ])(
    'concludes nothing from a server that %s: it signs nothing, and goes on when it is back',
    async (_what, lie) => {
      await look();
      const before = await own.signed();
      const size = await log.grow();
      log.proxy.say(lie);
      const { code, stdout, stderr } = await look();
      expect([code, stdout, stderr.includes('ALARM'), await own.signed()]).toEqual([1, '', false, before]);
      expect(stderr).not.toBe('');
      log.proxy.say(() => null);
      expect([(await look()).code, await own.signed()]).toEqual([0, size]);
    },
  );

  test('knows an older checkpoint of the same log for one, and goes not back to it', async () => {
    await log.grow();
    const older = await log.shown();
    const size = await log.grow();
    await look();
    log.proxy.say((place) => (place === '/log/checkpoint' ? { status: 200, text: older } : null));
    expect(await look()).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('older than one before') as string,
    });
    expect(await own.signed()).toBe(size);
  });

  test('says when events wait for a checkpoint that nobody makes', async () => {
    const size = sizeIn(await log.shown());
    await log.append(1);
    await using superuser = await asSuperuser(log.relay);
    const shift = (sign: '+' | '-'): Promise<unknown> =>
      superuser.client.query(
        `update daybook.log_batch set at = at ${sign} interval '2 minutes' where last_position > ${size}`,
      );
    await shift('-');
    await until(
      async () => (await fetch(`${log.proxy.address}/log/checkpoint`)).headers.get('x-waiting-ms'),
      (age) => Number(age) > 60_000,
      'the age',
    );
    expect(await look()).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(/events have waited for \d+ s/) as string,
    });
    await shift('+');
  });

  test('shares its directory with no other process', async () => {
    const held = new WitnessState(own.state, undefined);
    expect(await look()).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('another witness is at work') as string,
    });
    held.close();
    expect(await look()).toMatchObject({ code: 0 });
  });

  test('signs by the next key of the log only when it was told of it by a person, and is not stopped while both sign', async () => {
    await look();
    addSigningKey(log.publishing.keyFile);
    await log.grow();
    const keys = await log.keys();
    expect(keys).toHaveLength(2);
    const next = keys[1] as string;
    expect(await look()).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('signs with another key too') as string,
    });
    expect(await look('--key', next)).toMatchObject({ code: 0, stderr: '' });
    dropOldKey(log.publishing.keyFile);
    const size = await log.grow();
    const alone = path.join(log.home, 'told-nothing');
    await cp(own.state, alone, { recursive: true });
    expect(
      await line.daybook(
        'witness',
        '--state',
        alone,
        '--log',
        log.proxy.address,
        '--key',
        log.logKey,
        '--once',
      ),
    ).toMatchObject({ code: 2, stderr: expect.stringContaining('unknown_key') as string });
    expect(await look('--key', next)).toMatchObject({ code: 0, stderr: '' });
    expect(await own.signed()).toBe(size);
    log.logKey = next;
  });
});
