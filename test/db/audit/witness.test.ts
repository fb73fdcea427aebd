import { cp, readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { WitnessState } from '#db/audit/witness/state.ts';
import { openCheckpoint } from '#db/tlog/checkpoint.ts';
import { parseVerifierKey } from '#db/tlog/note.ts';
import { addSigningKey, dropOldKey } from '#db/tlog/signing-key.ts';
import { until } from '../../support/relay.ts';
import {
  asSuperuser,
  type Forgery,
  line,
  pollOnce,
  sizeIn,
  startWitnessedLog,
  type WitnessedLog,
} from '../../support/audit/witnessed-log.ts';

/** The witness command against a real server that is healthy, unreachable or returns unusable responses. */

let log: WitnessedLog;
/** Each test has a witness of its own that has cosigned nothing yet. */
let own: Awaited<ReturnType<WitnessedLog['next']>>;
beforeAll(async () => {
  log = await startWitnessedLog(16);
});
afterAll(() => log?.[Symbol.asyncDispose]());
beforeEach(async () => {
  own = await log.next();
});
afterEach(() => log.proxy.respond(() => null));
const poll = (...more: string[]) => pollOnce(own, log, ...more);

describe('witness', () => {
  test('witness: generates its key once, private to its user, and prints the verifier key', async () => {
    expect(own.key).toMatch(/^w\d+\.example\+[0-9a-f]{8}\+B/);
    expect((await stat(path.join(own.state, 'key'))).mode & 0o777).toBe(0o600);
    expect((await line.text('witness', '--state', own.state)).trim()).toBe(own.key);
    const { code, stderr } = await line.daybook('witness', '--state', own.state, '--name', 'another.example');
    expect([code, stderr]).toEqual([1, expect.stringContaining(`is ${own.name}`)]);
    expect((await line.daybook('witness', '--state', path.join(log.home, 'nameless'))).stderr).toContain(
      '--name is required',
    );
    expect(
      (await line.daybook('witness', '--state', own.state, '--log', log.proxy.address, '--once')).stderr,
    ).toContain('--key is required');
  });

  test('witness: cosigns each checkpoint; the log serves the cosignature, the history keeps it', async () => {
    const sizes: number[] = [];
    for (const more of [0, 1, 300]) {
      if (more > 0) await log.grow(more);
      const { code, stdout, stderr } = await poll();
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
    const again = JSON.parse((await poll('--json')).stdout) as object;
    expect(again).toMatchObject({ witness: own.name, size: sizes.at(-1), is_new: false });
  });

  test('witness: submits a cosignature again that the log did not accept, without an alarm', async () => {
    log.proxy.respond((place) => (place === '/log/cosignatures' ? { status: 503, text: '{}' } : null));
    expect(await poll()).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('did not accept the cosignature') as string,
    });
    expect(await log.shown()).not.toContain(own.name);
    log.proxy.respond(() => null);
    expect(await poll()).toMatchObject({ code: 0, stderr: '' });
    expect(await until(log.shown, (note) => note.includes(own.name), 'the cosignature')).toContain(
      `\n${await own.signed()}\n`,
    );
  });

  test.each<[string, Forgery]>([
    ['is unreachable', () => ({ status: 502, text: 'bad gateway' })],
    [
      'returns a page of a captive portal',
      () => ({ status: 200, text: '<html>Sign in to this network</html>' }),
    ],
    ['returns an oversized response', () => ({ status: 200, text: 'x'.repeat(1_000_000) })],
    [
      'has no consistency proof',
      (place) => (place.startsWith('/log/consistency') ? { status: 404, text: 'not found' } : null),
    ],
    [
      'returns an invalid proof',
      (place) => (place.startsWith('/log/consistency') ? { status: 200, text: 'AAAA\n' } : null),
    ],
  ])(
    'witness: a server that %s raises no alarm; nothing is signed until it recovers',
    async (_what, forgery) => {
      await poll();
      const before = await own.signed();
      const size = await log.grow();
      log.proxy.respond(forgery);
      const { code, stdout, stderr } = await poll();
      expect([code, stdout, stderr.includes('ALARM'), await own.signed()]).toEqual([1, '', false, before]);
      expect(stderr).not.toBe('');
      log.proxy.respond(() => null);
      expect([(await poll()).code, await own.signed()]).toEqual([0, size]);
    },
  );

  test('witness: an older checkpoint of the same log is a warning, and is not adopted', async () => {
    await log.grow();
    const older = await log.shown();
    const size = await log.grow();
    await poll();
    log.proxy.respond((place) => (place === '/log/checkpoint' ? { status: 200, text: older } : null));
    expect(await poll()).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('serves an older checkpoint') as string,
    });
    expect(await own.signed()).toBe(size);
  });

  test('witness: warns when events wait for a checkpoint', async () => {
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
    expect(await poll()).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(/events have been waiting \d+ s/) as string,
    });
    await shift('+');
  });

  test('witness: locks its state directory', async () => {
    const held = new WitnessState(own.state, undefined);
    expect(await poll()).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('another witness is running') as string,
    });
    held.close();
    expect(await poll()).toMatchObject({ code: 0 });
  });

  test(
    'witness: trusts a rotated key of the log only when given with --key, and continues while both keys ' +
      'sign',
    async () => {
      await poll();
      addSigningKey(log.publishing.keyFile);
      await log.grow();
      const keys = await log.keys();
      expect(keys).toHaveLength(2);
      const next = keys[1] as string;
      expect(await poll()).toMatchObject({
        code: 0,
        stderr: expect.stringContaining('also signs with an unknown key') as string,
      });
      expect(await poll('--key', next)).toMatchObject({ code: 0, stderr: '' });
      dropOldKey(log.publishing.keyFile);
      const size = await log.grow();
      const alone = path.join(log.home, 'without-new-key');
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
      expect(await poll('--key', next)).toMatchObject({ code: 0, stderr: '' });
      expect(await own.signed()).toBe(size);
      log.logKey = next;
    },
  );
});
