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

/** A real server with its log, a proxy that can forge its responses, and witnesses run by their command. */

export const line = commandLine(() => ({}));
export const newPem = (): string =>
  generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' });

/** A response served in place of the log's; null to pass on the log's own. */
export type Forgery = (
  place: string,
  truth: { status: number; text: string },
) => { status: number; text: string } | null;

/** A proxy before a server, whose responses a test can replace. */
async function startProxy(port: () => number) {
  let forgery: Forgery = () => null;
  let cosignatures = 0;
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const place = request.url ?? '';
      if (request.method === 'POST') cosignatures++;
      const body = request.method === 'POST' ? { body: Buffer.concat(parts) } : {};
      const forged = request.method === 'POST' ? forgery(place, { status: 0, text: '' }) : null;
      if (forged) return void response.writeHead(forged.status).end(forged.text);
      fetch(`http://127.0.0.1:${port()}${place}`, { method: request.method as string, ...body })
        .then(async (reply) => {
          const truth = { status: reply.status, text: await reply.text() };
          const { status, text } = forgery(place, truth) ?? truth;
          response.writeHead(status, { 'x-waiting-ms': reply.headers.get('x-waiting-ms') ?? '0' }).end(text);
        })
        .catch(() => response.destroy());
    });
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  return {
    address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** The number of cosignatures submitted. */
    submissions: () => cosignatures,
    respond: (next: Forgery) => void (forgery = next),
    close: () => new Promise<void>((resolve) => void server.close(() => resolve())),
  };
}

/** The content of the alarm file. */
type StoredAlarm = { alarm: string; known: string | null; shown: string; proof: string[] | null };

/** The size in a checkpoint note. */
export const sizeIn = (note: string): number => Number(note.split('\n')[1]);

/** The state directory of a witness. */
export class WitnessDirectory {
  readonly state: string;

  constructor(state: string) {
    this.state = state;
  }

  /** The size of the checkpoint cosigned last. */
  async signed(): Promise<number> {
    return sizeIn(await readFile(path.join(this.state, 'checkpoint'), 'utf8'));
  }

  async evidence(): Promise<StoredAlarm> {
    return JSON.parse(await readFile(path.join(this.state, 'alarm'), 'utf8')) as StoredAlarm;
  }
}

export type WitnessedLog = AsyncDisposable & {
  home: string;
  relay: TestRelay;
  proxy: Awaited<ReturnType<typeof startProxy>>;
  publishing: Publishing;
  /** The newest key of the log. */
  logKey: string;
  append(count: number): Promise<void>;
  /** Appends requests and publishes; returns the size once the server serves it. */
  grow(count?: number): Promise<number>;
  /** The checkpoint that the server itself serves. */
  shown(): Promise<string>;
  keys(): Promise<string[]>;
  /**
   * The next witness that has cosigned nothing yet, and that the log knows; `made` is its directory as it was
   * created.
   */
  next(): Promise<WitnessDirectory & { made: string; name: string; key: string }>;
};

/** @param witnesses how many there are to be. */
export async function startWitnessedLog(witnesses: number): Promise<WitnessedLog> {
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
  const resources = stack.move();
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
      const place = new WitnessDirectory(path.join(home, `state-${tests++}`));
      await cp(witness.state, place.state, { recursive: true });
      return Object.assign(place, { made: witness.state, name: witness.name, key: witness.key });
    },
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

/** One poll of the log by a witness, through the proxy. */
export const pollOnce = (
  { state }: { state: string },
  { proxy, logKey }: WitnessedLog,
  ...more: string[]
): Promise<Ran> =>
  line.daybook('witness', '--state', state, '--log', proxy.address, '--key', logKey, '--once', ...more);

/** A superuser, who can change the log, as no role of Daybook can. */
export async function asSuperuser({ store }: TestRelay) {
  const client = await (store as TestDatabase).superuser();
  await client.query('set session_replication_role = replica');
  return { client, [Symbol.asyncDispose]: () => client.end() };
}
