import { generateKeyPairSync } from 'node:crypto';
import { cp, readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { commandLine, type Ran } from '../servers/command-line.ts';
import { makeTestDirectory, removeTestDirectory } from '../directory.ts';
import type { TestDatabase } from '../database.ts';
import { accepted, openLivingWriter, settled } from '../log/log-writer.ts';
import { type Publishing, publishNow } from './publishing.ts';
import { startRelay, type TestRelay, until } from '../relay.ts';

/** A real server with its log, a proxy before it that may lie, and witnesses, as their command runs them. */

export const line = commandLine(() => ({}));
export const newPem = (): string =>
  generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' });

/** What a server answers in place of the log's; null: what the log says. */
export type Lie = (
  place: string,
  truth: { status: number; text: string },
) => { status: number; text: string } | null;

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

/** What an alarm's file tells. */
type Told = { alarm: string; known: string | null; shown: string; proof: string[] | null };

/** The size that a note tells. */
export const sizeIn = (note: string): number => Number(note.split('\n')[1]);

/** A directory that a witness has for itself. */
export class WitnessPlace {
  readonly state: string;

  constructor(state: string) {
    this.state = state;
  }

  /** Up to where it has signed. */
  async signed(): Promise<number> {
    return sizeIn(await readFile(path.join(this.state, 'checkpoint'), 'utf8'));
  }

  async evidence(): Promise<Told> {
    return JSON.parse(await readFile(path.join(this.state, 'alarm'), 'utf8')) as Told;
  }
}

export type Witnessed = AsyncDisposable & {
  home: string;
  relay: TestRelay;
  proxy: Awaited<ReturnType<typeof startProxy>>;
  publishing: Publishing;
  /** The newest key of the log. */
  logKey: string;
  append(count: number): Promise<void>;
  /** Grows the log by some calls and publishes; returns its size when the server tells of it. */
  grow(count?: number): Promise<number>;
  /** What the server itself shows. */
  shown(): Promise<string>;
  keys(): Promise<string[]>;
  /**
   * The next witness that has signed nothing yet, which the log knows; `made` is its directory as it was
   * made.
   */
  next(): Promise<WitnessPlace & { made: string; name: string; key: string }>;
};

/** @param witnesses how many there are to be. */
export async function startWitnessed(witnesses: number): Promise<Witnessed> {
  await using stack = new AsyncDisposableStack();
  const home = await makeTestDirectory();
  stack.defer(() => removeTestDirectory(home));
  const made: { state: string; name: string; key: string }[] = [];
  for (let at = 0; at < witnesses; at++) {
    const [state, name] = [path.join(home, `made-${at}`), `w${at}.example`];
    made.push({ state, name, key: (await line.text('witness', '--state', state, '--name', name)).trim() });
  }
  const relay = stack.use(await startRelay({ env: { WITNESSES: made.map(({ key }) => key).join(' ') } }));
  const writer = stack.use(await openLivingWriter(relay.store));
  const proxy = await startProxy(() => relay.port);
  stack.defer(() => proxy.close());
  const publishing = { keyFile: path.join(home, 'signing-key'), directory: path.join(home, 'published') };
  const shown = async (): Promise<string> =>
    (await fetch(`http://127.0.0.1:${relay.port}/log/checkpoint`)).text();
  async function append(count: number): Promise<void> {
    const calls = Array.from({ length: count }, () => accepted());
    await writer.append(calls);
    await writer.append(calls.map((call) => settled(call)));
  }
  async function grow(count = 5): Promise<number> {
    await append(count);
    const size = (await publishNow(relay.store, publishing))?.size as number;
    await until(shown, (note) => sizeIn(note) === size, 'the newest checkpoint');
    return size;
  }
  await grow();
  const keys = async (): Promise<string[]> =>
    (await (await fetch(`http://127.0.0.1:${relay.port}/log/keys`)).text()).trim().split('\n');
  let tests = 0;
  const whole = stack.move();
  return {
    home,
    relay,
    proxy,
    publishing,
    append,
    grow,
    shown,
    keys,
    logKey: (await keys())[0] as string,
    async next() {
      const witness = made[tests] as (typeof made)[number];
      const place = new WitnessPlace(path.join(home, `state-${tests++}`));
      await cp(witness.state, place.state, { recursive: true });
      return Object.assign(place, { made: witness.state, name: witness.name, key: witness.key });
    },
    [Symbol.asyncDispose]: () => whole.disposeAsync(),
  };
}

/** One look of a witness at the log, by the proxy. */
export const lookOnce = (
  { state }: { state: string },
  { proxy, logKey }: Witnessed,
  ...more: string[]
): Promise<Ran> =>
  line.daybook('witness', '--state', state, '--log', proxy.address, '--key', logKey, '--once', ...more);

/** Somebody who may change what is in the log, as no role of Daybook may. */
export async function asSuperuser({ store }: TestRelay) {
  const client = await (store as TestDatabase).superuser();
  await client.query('set session_replication_role = replica');
  return { client, [Symbol.asyncDispose]: () => client.end() };
}
