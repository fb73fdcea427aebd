import { generateKeyPairSync } from 'node:crypto';
import { cp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { WitnessState } from '#db/audit/witness-state.ts';
import { originOf } from '#db/fold/signing.ts';
import { openCheckpoint, signCheckpoint } from '#db/tlog/checkpoint.ts';
import { formatVerifierKey, parseVerifierKey, type Signer, signerOf } from '#db/tlog/note.ts';
import { addSigningKey, dropOldKey, readSigners } from '#db/tlog/signing-key.ts';
import { readRoot, readStanding } from '#db/tlog/standing.ts';
import { commandLine, type Ran } from '../support/command-line.ts';
import type { TestDatabase } from '../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { accepted, connectAs, openLivingWriter, settled, type Writer } from '../support/log-writer.ts';
import { publishNow } from '../support/publishing.ts';
import { startRelay, type TestRelay, until } from '../support/relay.ts';

/** A witness, as its command runs it, before a real server; and before servers that lie. */

const line = commandLine(() => ({}));
const newPem = (): string => generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' });

/** What a server answers in place of the log's; null: what the log says. */
type Lie = (place: string, truth: { status: number; text: string }) => { status: number; text: string } | null;

/** A proxy before a server, which says what a test wants. */
async function startProxy(port: () => number) {
  let lie: Lie = () => null;
  let cosignatures = 0;
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const place = request.url ?? '';
      if (request.method === 'POST') cosignatures++;
      const body = request.method === 'POST' ? { body: Buffer.concat(parts) } : {};
      const kept = request.method === 'POST' ? lie(place, { status: 0, text: '' }) : null;
      if (kept) return void response.writeHead(kept.status).end(kept.text);
      fetch(`http://127.0.0.1:${port()}${place}`, { method: request.method as string, ...body })
        .then(async (reply) => {
          const truth = { status: reply.status, text: await reply.text() };
          const { status, text } = lie(place, truth) ?? truth;
          response.writeHead(status, { 'x-waiting-ms': reply.headers.get('x-waiting-ms') ?? '0' }).end(text);
        })
        .catch(() => response.destroy());
    });
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  return {
    address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** How many were handed in. */
    taken: () => cosignatures,
    say: (next: Lie) => void (lie = next),
    close: () => new Promise<void>((resolve) => void server.close(() => resolve())),
  };
}

let home: string;
let state: string;
let relay: TestRelay;
let writer: Writer;
let proxy: Awaited<ReturnType<typeof startProxy>>;
let logKey: string;
let witnessKey: string;

const publishing = () => ({ keyFile: path.join(home, 'signing-key'), directory: path.join(home, 'published') });
const publish = () => publishNow(relay.store, publishing());

async function append(count: number): Promise<void> {
  const calls = Array.from({ length: count }, () => accepted());
  await writer.append(calls);
  await writer.append(calls.map((call) => settled(call)));
}

/** Grows the log by some calls and publishes; returns when the server tells of it. */
async function grow(count = 5): Promise<number> {
  await append(count);
  const size = (await publish())?.size as number;
  await until(shown, (note) => sizeIn(note) === size, 'the newest checkpoint');
  return size;
}
const shown = async (): Promise<string> => (await fetch(`http://127.0.0.1:${relay.port}/log/checkpoint`)).text();
const sizeIn = (note: string): number => Number(note.split('\n')[1]);

const witness = (...more: string[]): Promise<Ran> => line.daybook('witness', '--state', state, '--log', proxy.address, '--key', logKey, '--once', ...more);
const signed = async (): Promise<number> => sizeIn(await readFile(path.join(state, 'checkpoint'), 'utf8'));
type Told = { alarm: string; known: string | null; shown: string; proof: string[] | null };
const evidence = async (): Promise<Told> => JSON.parse(await readFile(path.join(state, 'alarm'), 'utf8')) as Told;

/** Somebody who may change what is in the log, as no role of Daybook may. */
async function asSuperuser({ store }: TestRelay) {
  const client = await (store as TestDatabase).superuser();
  await client.query('set session_replication_role = replica');
  return { client, [Symbol.asyncDispose]: () => client.end() };
}

beforeAll(async () => {
  home = await makeTestDirectory();
  for (let at = 0; at < WITNESSES; at++) witnessKeys.push((await line.text('witness', '--state', path.join(home, `made-${at}`), '--name', `w${at}.example`)).trim());
  relay = await startRelay({ env: { WITNESSES: witnessKeys.join(' ') } });
  writer = await openLivingWriter(relay.store);
  proxy = await startProxy(() => relay.port);
  await grow();
  logKey = (await (await fetch(`http://127.0.0.1:${relay.port}/log/keys`)).text()).trim();
});
afterAll(async () => {
  await proxy?.close();
  await writer?.[Symbol.asyncDispose]();
  await relay?.[Symbol.asyncDispose]();
  await removeTestDirectory(home);
});

// Each test has a witness of its own that has signed nothing yet.
const WITNESSES = 40;
const witnessKeys: string[] = [];
let tests = 0;
let made: string;
let name: string;
beforeEach(async () => {
  made = path.join(home, `made-${tests}`);
  state = path.join(home, `state-${tests}`);
  witnessKey = witnessKeys[tests] as string;
  name = `w${tests}.example`;
  await cp(made, state, { recursive: true });
  tests++;
});
afterEach(() => proxy.say(() => null));

describe('a witness', () => {
  test('makes its key once, for itself alone to read, and prints what the operator has to know', async () => {
    expect(witnessKey).toMatch(/^w\d+\.example\+[0-9a-f]{8}\+B/);
    expect((await stat(path.join(state, 'key'))).mode & 0o777).toBe(0o600);
    expect((await line.text('witness', '--state', state)).trim()).toBe(witnessKey);
    const { code, stderr } = await line.daybook('witness', '--state', state, '--name', 'another.example');
    expect([code, stderr]).toEqual([1, expect.stringContaining(`is ${name}`)]);
    expect((await line.daybook('witness', '--state', path.join(home, 'nameless'))).stderr).toContain('--name is needed');
    expect((await line.daybook('witness', '--state', state, '--log', proxy.address, '--once')).stderr).toContain('--key is needed');
  });

  test('signs each newest checkpoint of a log that has only grown; the log shows it, and so does its own history', async () => {
    const sizes: number[] = [];
    for (const more of [0, 1, 300]) {
      if (more > 0) await grow(more);
      const { code, stdout, stderr } = await witness();
      expect([code, stderr]).toEqual([0, '']);
      expect(stdout).toContain(witnessKey);
      sizes.push(await signed());
      const { verified, checkpoint } = openCheckpoint(await until(shown, (note) => note.includes(name), 'the cosignature'), [parseVerifierKey(logKey), parseVerifierKey(witnessKey)]);
      expect([checkpoint.size, verified.map(({ verifier }) => verifier.name)]).toEqual([await signed(), [checkpoint.origin, name]]);
      expect(Math.abs((verified[1]?.timeSecs ?? 0) - Date.now() / 1_000)).toBeLessThan(60);
    }
    const [history = ''] = (await readdir(state)).filter((name) => name.startsWith('history-'));
    const notes = (await readFile(path.join(state, history), 'utf8')).split('\n\n');
    expect([0, 2, 4].map((at) => Number(notes[at]?.split('\n')[1]))).toEqual(sizes);
    for (const at of [0, 2, 4]) openCheckpoint(`${notes[at]}\n\n${notes[at + 1]}\n`, [parseVerifierKey(logKey), parseVerifierKey(witnessKey)]);
    const again = JSON.parse((await witness('--json')).stdout) as object;
    expect(again).toMatchObject({ witness: name, size: sizes.at(-1), is_new: false });
  });

  test('hands in again what the log did not take, and says so without an alarm', async () => {
    proxy.say((place) => (place === '/log/cosignatures' ? { status: 503, text: '{}' } : null));
    expect(await witness()).toMatchObject({ code: 0, stderr: expect.stringContaining('did not take the cosignature') as string });
    expect(await shown()).not.toContain(name);
    proxy.say(() => null);
    expect(await witness()).toMatchObject({ code: 0, stderr: '' });
    expect(await until(shown, (note) => note.includes(name), 'the cosignature')).toContain(`\n${await signed()}\n`);
  });

  test.each<[string, Lie]>([
    ['is away', () => ({ status: 502, text: 'bad gateway' })],
    ['shows a page of somebody else', () => ({ status: 200, text: '<html>Sign in to this network</html>' })],
    ['shows far too much', () => ({ status: 200, text: 'x'.repeat(1_000_000) })],
    ['has no proof', (place) => (place.startsWith('/log/consistency') ? { status: 404, text: 'not found' } : null)],
    ['sends what is no proof', (place) => (place.startsWith('/log/consistency') ? { status: 200, text: 'AAAA\n' } : null)],
  ])('concludes nothing from a server that %s: it signs nothing, and goes on when it is back', async (_what, lie) => {
    await witness();
    const before = await signed();
    const size = await grow();
    proxy.say(lie);
    const { code, stdout, stderr } = await witness();
    expect([code, stdout, stderr.includes('ALARM'), await signed()]).toEqual([1, '', false, before]);
    expect(stderr).not.toBe('');
    proxy.say(() => null);
    expect([(await witness()).code, await signed()]).toEqual([0, size]);
  });

  test('knows an older checkpoint of the same log for one, and goes not back to it', async () => {
    await grow();
    const older = await shown();
    const size = await grow();
    await witness();
    proxy.say((place) => (place === '/log/checkpoint' ? { status: 200, text: older } : null));
    expect(await witness()).toMatchObject({ code: 0, stderr: expect.stringContaining('older than one before') as string });
    expect(await signed()).toBe(size);
  });

  test('says when events wait for a checkpoint that nobody makes', async () => {
    const size = sizeIn(await shown());
    await append(1);
    await using superuser = await asSuperuser(relay);
    const shift = (sign: '+' | '-'): Promise<unknown> => superuser.client.query(`update daybook.log_batch set at = at ${sign} interval '2 minutes' where last_position > ${size}`);
    await shift('-');
    await until(async () => (await fetch(`${proxy.address}/log/checkpoint`)).headers.get('x-waiting-ms'), (age) => Number(age) > 60_000, 'the age');
    expect(await witness()).toMatchObject({ code: 0, stderr: expect.stringMatching(/events have waited for \d+ s/) as string });
    await shift('+');
  });

  test('shares its directory with no other process', async () => {
    const held = new WitnessState(state, undefined);
    expect(await witness()).toMatchObject({ code: 1, stderr: expect.stringContaining('another witness is at work') as string });
    held.close();
    expect(await witness()).toMatchObject({ code: 0 });
  });

  test('signs by the next key of the log only when it was told of it by a person, and is not stopped while both sign', async () => {
    await witness();
    addSigningKey(publishing().keyFile);
    await grow();
    const keys = (await (await fetch(`http://127.0.0.1:${relay.port}/log/keys`)).text()).trim().split('\n');
    expect(keys).toHaveLength(2);
    const next = keys[1] as string;
    expect(await witness()).toMatchObject({ code: 0, stderr: expect.stringContaining('signs with another key too') as string });
    expect(await witness('--key', next)).toMatchObject({ code: 0, stderr: '' });
    dropOldKey(publishing().keyFile);
    const size = await grow();
    const alone = path.join(home, 'told-nothing');
    await cp(state, alone, { recursive: true });
    expect(await line.daybook('witness', '--state', alone, '--log', proxy.address, '--key', logKey, '--once')).toMatchObject({ code: 2, stderr: expect.stringContaining('unknown_key') as string });
    expect(await witness('--key', next)).toMatchObject({ code: 0, stderr: '' });
    expect(await signed()).toBe(size);
    logKey = next;
  });
});

/** Signs a head of the log's choice with the log's own key, as an operator could who wants to lie. */
async function signAs(head: { size: number; root: Buffer }, signers?: readonly Signer[]): Promise<string> {
  const client = await connectAs(relay.store, 'auditor');
  const { origin } = await readStanding(client);
  await client.end();
  return signCheckpoint({ origin, ...head }, signers ?? (readSigners(publishing().keyFile, origin) as Signer[]));
}

async function rootOf(size: number): Promise<Buffer> {
  const client = await connectAs(relay.store, 'auditor');
  try {
    return await readRoot(client, size);
  } finally {
    await client.end();
  }
}

test('a witness that runs on signs what comes, complains once of what is not well, and ends with the first alarm', async () => {
  const running = line.daybook('witness', '--state', state, '--log', proxy.address, '--key', logKey, '--every', '1');
  await until(shown, (note) => note.includes(name), 'the cosignature');
  proxy.say(() => ({ status: 502, text: 'bad gateway' }));
  const size = await grow();
  proxy.say(() => null);
  await until(shown, (note) => note.includes(name), 'the next cosignature');
  const note = await signAs({ size, root: Buffer.alloc(32, 7) });
  proxy.say((place) => (place === '/log/checkpoint' ? { status: 200, text: note } : null));
  const { code, stdout, stderr } = await running;
  expect([code, stdout]).toEqual([2, expect.stringContaining(witnessKey)]);
  expect(stderr).toMatch(/ALARM \(forked\)/);
  expect(stderr.match(/shows no checkpoint/g)?.length ?? 0).toBeLessThanOrEqual(1);
});

describe('a witness refuses, keeps the evidence and signs nothing any more', () => {
  /** What each lie is shown as in place of the newest checkpoint, after one good one was signed. */
  const LIES: [what: string, alarm: string, make: (size: number) => Promise<Lie>][] = [
    ['is cut', 'shorter', async (size) => {
      const note = await signAs({ size: size - 4, root: await rootOf(size - 4) });
      return (place) => (place === '/log/checkpoint' ? { status: 200, text: note } : place.startsWith('/log/consistency') ? { status: 400, text: '{"error":{"code":"invalid_value"}}' } : null);
    }],
    ['is cut and rewritten', 'shorter', async (size) => {
      const note = await signAs({ size: size - 4, root: Buffer.alloc(32, 7) });
      return (place) => (place === '/log/checkpoint' ? { status: 200, text: note } : null);
    }],
    ['is another of the same size', 'forked', async (size) => {
      const note = await signAs({ size, root: Buffer.alloc(32, 7) });
      return (place) => (place === '/log/checkpoint' ? { status: 200, text: note } : null);
    }],
    ['does not begin with what was signed', 'inconsistent', async () => {
      const size = await grow();
      const note = await signAs({ size, root: Buffer.alloc(32, 7) });
      return (place) => (place === '/log/checkpoint' ? { status: 200, text: note } : null);
    }],
    ['is proved by changed bytes', 'inconsistent', async () => {
      await grow();
      return (place, { status, text }) => (place.startsWith('/log/consistency') ? { status, text: text.replace(/^./, (first) => (first === 'A' ? 'B' : 'A')) } : null);
    }],
    ['is of another epoch', 'another_log', async (size) => {
      const origin = `${parseVerifierKey(logKey).name}/2`;
      expect(origin).toBe(originOf(parseVerifierKey(logKey).name.replace('daybook/', ''), 2));
      const note = signCheckpoint({ origin, size: size + 1, root: Buffer.alloc(32, 7) }, [signerOf(origin, 'ed25519', newPem())]);
      return (place) => (place === '/log/checkpoint' ? { status: 200, text: note } : null);
    }],
    ['is signed by a key that nobody knows', 'unknown_key', async (size) => {
      const note = await signAs({ size: size + 1, root: Buffer.alloc(32, 7) }, [signerOf(parseVerifierKey(logKey).name, 'ed25519', newPem())]);
      return (place) => (place === '/log/checkpoint' ? { status: 200, text: note } : null);
    }],
    ['has a signature that its key did not make', 'unknown_key', async (size) => {
      await grow();
      return (place, { status, text }) => (place === '/log/checkpoint' ? { status, text: text.replace(`\n${sizeIn(text)}\n`, `\n${size + 1_000}\n`) } : null);
    }],
  ];

  test.each(LIES)('a log that %s', async (_what, alarm, make) => {
    await witness();
    const size = await signed();
    const known = await readFile(path.join(state, 'checkpoint'), 'utf8');
    const history = await readdir(state);
    const handedIn = proxy.taken();
    proxy.say(await make(size));
    const seen = await (await fetch(`${proxy.address}/log/checkpoint`)).text();
    const { code, stdout, stderr } = await witness();
    expect([code, stdout, stderr]).toEqual([2, '', expect.stringMatching(`^daybook: ALARM \\(${alarm}\\) `)]);
    expect(await evidence()).toMatchObject({ alarm, known, shown: seen });
    expect([await signed(), proxy.taken()]).toEqual([size, handedIn]);
    // What comes after it, good as it may look, is not signed either.
    proxy.say(() => null);
    expect(await witness()).toMatchObject({ code: 2, stderr: expect.stringContaining('ALARM') as string });
    expect([await signed(), proxy.taken()]).toEqual([size, handedIn]);
    expect((await readdir(state)).toSorted()).toEqual([...history, 'alarm'].toSorted());
  });

  test('a server that was really cut, with the checkpoints in its database, its directory and its tree', async () => {
    await using own = await startRelay({ env: { WITNESSES: witnessKey } });
    await using filling = await openLivingWriter(own.store);
    const places = { keyFile: path.join(home, 'own-key'), directory: path.join(home, 'own') };
    const address = `http://127.0.0.1:${own.port}`;
    const lastShown = async (): Promise<number> => sizeIn(await (await fetch(`${address}/log/checkpoint`)).text());
    await filling.append(Array.from({ length: 600 }, () => accepted()));
    const { size } = (await publishNow(own.store, places)) as { size: number };
    const key = (await (await fetch(`${address}/log/keys`)).text()).trim();
    const args = ['witness', '--state', state, '--log', address, '--key', key, '--once'];
    expect(await line.daybook(...args)).toMatchObject({ code: 0, stderr: '' });
    await using superuser = await asSuperuser(own);
    await superuser.client.query(`delete from daybook.log_batch where last_position > 100; delete from daybook.log where position > (select max(last_position) from daybook.log_batch);
      delete from daybook.stream_head where stream = 'log'; delete from daybook.log_node; delete from daybook.checkpoint; delete from daybook.cosignature`);
    await rm(places.directory, { recursive: true });
    await publishNow(own.store, places);
    expect(await until(lastShown, (shownSize) => shownSize < size, 'the cut log')).toBeLessThan(size);
    expect(await line.daybook(...args)).toMatchObject({ code: 2, stderr: expect.stringContaining('ALARM (shorter)') as string });
    expect(sizeIn((await evidence()).known as string)).toBe(size);
    // Grown again beyond what was signed it is found all the same.
    await rm(path.join(state, 'alarm'));
    await filling.append(Array.from({ length: 700 }, () => accepted()));
    await publishNow(own.store, places);
    await until(lastShown, (shownSize) => shownSize > size, 'the log that grew again');
    expect(await line.daybook(...args)).toMatchObject({ code: 2, stderr: expect.stringContaining('ALARM (inconsistent)') as string });
  });

  test('its own state, where that was put back: by its history, or by its signature that the log shows', async () => {
    await witness();
    const before = path.join(home, 'before');
    await cp(state, before, { recursive: true });
    await grow();
    await witness();
    const newest = await readFile(path.join(state, 'checkpoint'), 'utf8');
    // Only the checkpoint was put back.
    const halfway = path.join(home, 'halfway');
    await cp(state, halfway, { recursive: true });
    await cp(path.join(before, 'checkpoint'), path.join(halfway, 'checkpoint'));
    await until(shown, (note) => note.includes(name), 'the cosignature');
    for (const back of [halfway, before, made]) {
      state = path.join(home, `put-back-${path.basename(back)}`);
      await cp(back, state, { recursive: true });
      expect([back, await witness()]).toMatchObject([back, { code: 2, stderr: expect.stringContaining('ALARM (rolled_back)') as string }]);
      expect(sizeIn((await evidence()).shown)).toBe(sizeIn(newest));
    }
  });

  test('until a person accepts one of the two checkpoints, by its size', async () => {
    await witness();
    const size = await signed();
    const note = await signAs({ size: size - 3, root: await rootOf(size - 3) });
    proxy.say((place) => (place === '/log/checkpoint' ? { status: 200, text: note } : place.startsWith('/log/consistency') ? { status: 400, text: '' } : null));
    expect((await witness()).code).toBe(2);
    expect(await witness('--accept', String(size - 1))).toMatchObject({ code: 1, stderr: expect.stringContaining('neither') as string });
    expect((await witness()).code).toBe(2);
    const [keeps, takes] = [path.join(home, 'keeps'), path.join(home, 'takes')];
    for (const each of [keeps, takes]) await cp(state, each, { recursive: true });
    proxy.say(() => null);
    state = keeps;
    expect(await witness('--accept', String(size))).toMatchObject({ code: 0, stderr: '' });
    expect(await signed()).toBe(size);
    state = takes;
    proxy.say((place) => (place === '/log/checkpoint' ? { status: 200, text: note } : null));
    expect(await witness('--accept', String(size - 3))).toMatchObject({ code: 0 });
    expect(await signed()).toBe(size - 3);
    expect((await readdir(state)).some((name) => name.startsWith('alarm-accepted-'))).toBe(true);
    proxy.say(() => null);
    await grow();
    expect(await witness()).toMatchObject({ code: 0 });
  });

  test('and tells a webhook, with the evidence', async () => {
    await witness();
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
    const note = await signAs({ size: await signed(), root: Buffer.alloc(32, 7) });
    proxy.say((place) => (place === '/log/checkpoint' ? { status: 200, text: note } : null));
    const webhook = `http://127.0.0.1:${(server.address() as AddressInfo).port}/secret-path`;
    const { code, stderr } = await witness('--webhook', webhook);
    expect([code, stderr.includes('secret-path')]).toEqual([2, false]);
    expect(told).toEqual([{ type: 'witness.alarm', ...(await evidence()) }]);
    await new Promise((resolve) => server.close(resolve));
    // Nobody being there is no reason to be silent.
    expect(await witness('--webhook', webhook)).toMatchObject({ code: 2, stderr: expect.stringMatching(/ALARM[^]*could not be told/) as string });
  });

  test('a checkpoint of its own that somebody has changed', async () => {
    await witness();
    const file = path.join(state, 'checkpoint');
    await writeFile(file, (await readFile(file, 'utf8')).replace(/^daybook/, 'nonsense'));
    const { code, stderr } = await witness();
    expect([code, stderr]).toEqual([1, expect.stringContaining('the key is of another log')]);
    await writeFile(file, 'nonsense');
    expect(await witness()).toMatchObject({ code: 1, stderr: expect.stringContaining('is not what this witness has written') as string });
  });
});

test('a first look with another log\'s key signs nothing', async () => {
  const other = formatVerifierKey(signerOf(parseVerifierKey(logKey).name, 'ed25519', newPem()));
  const handedIn = proxy.taken();
  const { code } = await line.daybook('witness', '--state', state, '--log', proxy.address, '--key', other, '--once');
  expect([code, proxy.taken()]).toEqual([2, handedIn]);
  await expect(readFile(path.join(state, 'checkpoint'))).rejects.toThrow('ENOENT');
});
