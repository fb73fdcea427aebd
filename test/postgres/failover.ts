import { rm } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { externalStore, patient, type Store } from '#db/postgres/connect.ts';
import { runProgram } from '#server/cli/program.ts';
import { chat } from '../support/client.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { type ClientRow, checkIdentity } from '../support/identity/identity.ts';
import { openLink, type Link } from '../support/postgres/link.ts';
import { createPostgres, type PostgresServer, startWithOwner } from '../support/postgres/server.ts';
import { batchesAbove, headOf, promote, publishedSize, startStandby } from '../support/postgres/standby.ts';
import { openLog, until, upstreamsVariable } from '../support/relay.ts';
import { type ServerProcess, spawnServer } from '../support/servers/server-process.ts';
import { startUpstream, type ScriptedUpstream } from '../support/upstream/upstream.ts';
import { runAudit } from '../chaos/audit-diff.ts';
import { randomFrom } from '../chaos/random.ts';
import type { Finding } from '../chaos/verdict.ts';

export type FailoverVerdict = {
  synchronous: { runs: number; calls: number; completed: number; rejected: Record<string, number> };
  asynchronous: { runs: number; calls: number; lost: number; namedExactly: number };
  violations: Finding[];
};

type Options = { runs: number; streams: number; seed: number };

const MODELS = ['s:tokens=40,every=5ms', 's:tokens=15,every=20ms,usage=always', 's:tokens=5'];
const CALL_TIMEOUT_MS = 30_000;
const WITHIN_MS = 60_000;
/** A rejection that blames the client for the failover. */
const FALSE_REJECTIONS = new Set([401, 403, 429]);
const LOST_LINE = 'log lacks acknowledged events';

/** A service on a PostgreSQL that is reached by an address which a failover moves. */
type Field = AsyncDisposable & {
  link: Link;
  primary: PostgresServer;
  server: ServerProcess;
  upstream: ScriptedUpstream;
  store: Store;
  env: Record<string, string>;
  publishDir: string;
  key: string;
  clients: ClientRow[];
};

/**
 * `npm run chaos -- failover`: kills the primary under load and promotes a standby. With a synchronous
 * standby nothing that a client or an upstream saw is missing or there twice. With an asynchronous one, cut
 * off before the kill, the lost events are named, and nothing is served until an operator gives them up.
 */
export async function failover(options: Options): Promise<FailoverVerdict> {
  const synchronous = await failOverSynchronously(options);
  const asynchronous = await failOverAsynchronously(options);
  return {
    synchronous: synchronous.figures,
    asynchronous: asynchronous.figures,
    violations: [...synchronous.violations, ...asynchronous.violations],
  };
}

async function openField(): Promise<Field> {
  const directory = await makeTestDirectory();
  const primary = await createPostgres(directory);
  await primary.configure('wal_keep_size = 1GB\nmax_connections = 200');
  await startWithOwner(primary);
  const link = await openLink(primary.port);
  const upstream = await startUpstream();
  const url = primary.url('daybook').replace(`:${primary.port}/`, `:${link.port}/`);
  const dataDir = path.join(directory, 'data');
  const publishDir = path.join(directory, 'published');
  const env = {
    DAYBOOK_DATA: dataDir,
    DATABASE_URL: url,
    DAYBOOK_UPSTREAMS: upstreamsVariable([upstream]),
    PUBLISH_DIR: publishDir,
  };
  const server = await spawnServer(env);
  if (server.firstKey === null) throw new Error('the first start printed no key');
  const field: Field = {
    link,
    primary,
    server,
    upstream,
    store: patient(externalStore(url)),
    env,
    publishDir,
    key: server.firstKey,
    clients: [],
    async [Symbol.asyncDispose]() {
      await field.server.kill();
      await link[Symbol.asyncDispose]();
      await field.primary.kill();
      await upstream[Symbol.asyncDispose]();
      // The worker of a killed server ends a moment later.
      await rm(directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 200 });
      await removeTestDirectory(directory);
    },
  };
  return field;
}

/** Calls with so many streams at once until it is ended; then waits for the running calls. */
function startLoad(field: Field, streams: number, random: ReturnType<typeof randomFrom>) {
  let isEnded = false;
  const completed = (): number =>
    field.clients.filter(({ status, finished }) => status === 200 && finished).length;
  const caller = async (): Promise<void> => {
    while (!isEnded) {
      const body = {
        model: MODELS[random.below(MODELS.length)],
        user: `call-${random.below(2 ** 47)}`,
        stream: random.below(4) > 0,
        messages: [{ role: 'user', content: 'hi' }],
      };
      const row = await chat({ port: field.server.port, key: field.key, body, timeoutMs: CALL_TIMEOUT_MS });
      field.clients.push(row);
      if (row.status !== 200) await wait(20);
    }
  };
  const callers = Array.from({ length: streams }, caller);
  return {
    /** Waits until so many more calls were completed. */
    async completes(count: number): Promise<void> {
      const target = completed() + count;
      await until(
        async () => completed(),
        (is) => is >= target,
        'completed calls',
        WITHIN_MS,
      );
    },
    async end(): Promise<void> {
      isEnded = true;
      await Promise.all(callers);
    },
  };
}

async function failOverSynchronously({ runs, streams, seed }: Options) {
  const random = randomFrom(seed);
  const violations: Finding[] = [];
  await using field = await openField();
  for (let run = 1; run <= runs; run++) {
    const { primary } = field;
    const standby = await startStandby(primary, `sync-${run}`, { port: primary.port, isSynchronous: true });
    const load = startLoad(field, streams, random);
    await load.completes(streams);
    await wait(random.below(500));
    field.link.cut();
    await primary.kill();
    await promote(standby);
    field.link.pointAt(standby.port);
    field.primary = standby;
    await load.completes(streams);
    await load.end();
    await primary.remove();
  }
  const log = openLog(field.store);
  const head = await headOf(field.primary);
  await until(
    () => publishedSize(field.publishDir),
    (size) => size >= head,
    'the checkpoint',
    WITHIN_MS,
  );
  const events = await until(log.read, isSettled, 'the last call', WITHIN_MS);
  await log.close();
  const identity = checkIdentity({
    ledger: field.upstream.ledger.attempts,
    events,
    clients: field.clients,
    accounting: 'strict',
  });
  violations.push(...identity.violations);
  for (const command of ['verify', 'diff'] as const) {
    const { code, text } = await runAudit(field.env, command);
    if (code !== 0) violations.push({ rule: 'P6', request: command, message: text.slice(0, 1_000) });
  }
  if (field.server.output().includes(LOST_LINE))
    violations.push({ rule: 'P1', request: '', message: 'the server found lost events' });
  const rejected: Record<string, number> = {};
  for (const { status, user } of field.clients) {
    if (status === 200) continue;
    rejected[String(status)] = (rejected[String(status)] ?? 0) + 1;
    if (status !== null && FALSE_REJECTIONS.has(status))
      violations.push({ rule: 'P7', request: user ?? '', message: `rejected with ${status}` });
  }
  const completed = field.clients.filter(({ status, finished }) => status === 200 && finished).length;
  return { figures: { runs, calls: field.clients.length, completed, rejected }, violations };
}

async function failOverAsynchronously({ runs, streams, seed }: Options) {
  const random = randomFrom(seed + 1);
  const violations: Finding[] = [];
  const figures = { runs, calls: 0, lost: 0, namedExactly: 0 };
  await using field = await openField();
  for (let run = 1; run <= runs; run++) {
    const violation = (message: string) => violations.push({ rule: 'P6', request: `run ${run}`, message });
    const { primary } = field;
    // The first checkpoint of this epoch, without which no loss contradicts anything published.
    const start = startLoad(field, 2, random);
    await until(
      () => publishedSize(field.publishDir),
      (size) => size > 0,
      'the checkpoint',
      WITHIN_MS,
    );
    await start.end();

    await using wire = await openLink(primary.port);
    const standby = await startStandby(primary, `async-${run}`, { port: wire.port, isSynchronous: false });
    const load = startLoad(field, streams, random);
    await load.completes(streams);
    wire.cut();
    const cutAt = await headOf(primary);
    await load.completes(1 + random.below(2 * streams));
    // In half of the runs the loss reaches into what was published.
    if (run % 2 === 0)
      await until(
        () => publishedSize(field.publishDir),
        (size) => size > cutAt,
        'the checkpoint',
        WITHIN_MS,
      );
    field.link.cut();
    await primary.kill();
    const kept = await promote(standby);
    // What really was in the old log: it is started once more, where nothing else reaches it.
    await primary.start();
    const batches = await batchesAbove(primary, kept);
    await primary.kill();
    await primary.remove();

    field.link.pointAt(standby.port);
    field.primary = standby;
    await until(
      async () => field.server.output(),
      (text) => text.includes(LOST_LINE),
      'the finding',
      WITHIN_MS,
    );
    await load.end();
    await field.server.kill();
    const refusal = await spawnServer(field.env).then(
      async (server) => {
        await server.kill();
        return 'started';
      },
      (error: Error) => error.message,
    );
    if (!refusal.includes('log new-epoch')) violation(`a server started on the log: ${refusal.slice(-300)}`);

    const shown = await daybook(field.env, 'log', 'new-epoch', '--json');
    const { lost } = JSON.parse(shown) as { lost: { first_position: number; last_position: number } | null };
    const [first, last] = [lost?.first_position ?? 0, lost?.last_position ?? 0];
    // A batch that was written and whose reply the kill cut off wasn't acknowledged.
    const unacknowledged = batches.filter((end) => end > last);
    const isExact =
      first === kept + 1 && (batches.includes(last) || batches.length === 0) && unacknowledged.length <= 1;
    if (isExact) figures.namedExactly += 1;
    else violation(`named ${first} to ${last}; the log had ${kept}, and batches to ${batches.join(', ')}`);
    figures.lost += last - first + 1;

    await daybook(field.env, 'log', 'new-epoch', '--yes');
    field.server = await spawnServer(field.env);
    const after = startLoad(field, 2, random);
    await after.completes(4);
    await after.end();
    const { code, text } = await runAudit(field.env, 'verify');
    if (code !== 0) violation(`verify: ${text.slice(0, 500)}`);
  }
  figures.calls = field.clients.length;
  return { figures, violations };
}

async function daybook(env: Record<string, string>, ...args: string[]): Promise<string> {
  let [out, complaint] = ['', ''];
  await runProgram(args, { env, out: (piece) => (out += piece), err: (piece) => (complaint += piece) });
  if (out === '') throw new Error(`daybook ${args.join(' ')}: ${complaint}`);
  return out;
}

function isSettled(events: Awaited<ReturnType<ReturnType<typeof openLog>['read']>>): boolean {
  const open = new Set<string>();
  for (const { event } of events) {
    if (event.type === 'request.accepted') open.add(event.request);
    else if (event.type === 'request.settled' || event.type === 'request.abandoned')
      open.delete(event.request);
  }
  return open.size === 0;
}
