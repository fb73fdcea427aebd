import { mkdir, readdir, readFile } from 'node:fs/promises';
import { Agent, get } from 'node:http';
import path from 'node:path';
import type { Store } from '#db/postgres/connect.ts';
import { startEmbedded } from '#db/postgres/embedded/embedded.ts';
import { API_ERRORS } from '#server/errors/api-errors.ts';
import { type Longest, longest, readProbe } from '../soak/samples.ts';
import { databaseUrlOf } from '../support/database-url.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { openRequests } from '../support/faults.ts';
import { changeControl, openLog, until, upstreamsVariable } from '../support/relay.ts';
import { type ServerProcess, spawnServer } from '../support/servers/server-process.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** A server in a process of its own, so that its memory, descriptors and stalls are measured apart. */
export type Target = {
  server: ServerProcess;
  port: number;
  dataDir: string;
  upstream: ScriptedUpstream;
  store: Store;
  /** Of an account with limits of every kind, so that each call has reservations. */
  key: string;
};

/** The effects of a run on the server. */
export type TargetReport = {
  statuses: Record<string, number>;
  /** Calls that were recorded; each has one ending. */
  calls: number;
  /** Longest of each second: time that the event loop was late, and CPU time that one turn used. */
  stallMs: Longest;
  turnCpuMs: Longest;
  rssMb: { before: number; most: number; after: number };
  descriptors: { before: number; most: number; after: number };
  violations: string[];
};

const PROBE = path.join(import.meta.dirname, '../soak/probe.ts');
const SAMPLE_MS = 250;
const ENDED_WITHIN_MS = 60_000;
/** The default budget for bodies and replies, and the heap's own headroom. */
const RSS_GROWTH_MB_MAX = 512;
/** Descriptors that belong to no client: sessions of the database, idle upstream connections. */
const DESCRIPTORS_SPARE = 32;
export const VIOLATIONS_MAX = 20;
const ESTABLISHED = '01';
const CLOSE_WAIT = '08';

/** Runs on a PostgreSQL of its own. */
export async function withOwnTarget<T>(use: (target: Target) => Promise<T>): Promise<T> {
  const dataDir = await makeTestDirectory();
  const store = await startEmbedded({ dataDir, log: () => undefined });
  try {
    return await withTarget(store, await databaseUrlOf(store.config('owner')), use, dataDir);
  } finally {
    await store.stop();
    await removeTestDirectory(dataDir);
  }
}

/** Runs on a database of the tests' cluster. */
export async function withTarget<T>(
  store: Store,
  databaseUrl: string,
  use: (target: Target) => Promise<T>,
  directory?: string,
): Promise<T> {
  const dataDir = directory ?? (await makeTestDirectory());
  await mkdir(path.join(dataDir, 'probes'));
  await using upstream = await startUpstream();
  const server = await spawnServer({
    DAYBOOK_DATA: dataDir,
    DATABASE_URL: databaseUrl,
    DAYBOOK_UPSTREAMS: upstreamsVariable([upstream]),
    // Its projections are no part of what a client can do to a server.
    DAYBOOK_WORKER: 'off',
    LOG_LEVEL: 'error',
    NODE_OPTIONS: `--import ${PROBE}`,
    SOAK_PROBE_DIR: path.join(dataDir, 'probes'),
  });
  try {
    const key = await changeControl(store, dataDir, async (control, pepper) => {
      await control.createAccount('fuzz');
      await control.definePlan(
        'fuzz',
        {
          concurrent_requests: 200,
          quotas: [{ meter: 'tokens', window: 'month', limit: 1e12, enforcement: 'soft' }],
        },
        'keep',
      );
      await control.setPlan('fuzz', 'fuzz', 'keep');
      return control.createKey(pepper, { account: 'fuzz', name: 'fuzz', expiresAt: null });
    });
    const target: Target = { server, port: server.port, dataDir, upstream, store, key: key.secret };
    await until(
      () => usage(target),
      ({ limits }) => (limits?.length ?? 0) > 0,
      'the key and its plan',
      ENDED_WITHIN_MS,
    );
    return await use(target);
  } finally {
    await server.kill();
    if (directory === undefined) await removeTestDirectory(dataDir);
  }
}

/**
 * Runs hostile clients against a target, and checks it while they run and after they have left.
 * @param attack adds its replies to the report, and resolves when all its sockets are closed.
 */
export async function measured(
  target: Target,
  attack: (report: TargetReport) => Promise<void>,
): Promise<TargetReport> {
  const { pid } = target.server;
  const before = await look(pid);
  const report: TargetReport = {
    statuses: {},
    calls: 0,
    stallMs: { p99: 0, max: 0 },
    turnCpuMs: { p99: 0, max: 0 },
    rssMb: { before: before.rssMb, most: before.rssMb, after: 0 },
    descriptors: { before: before.descriptors, most: before.descriptors, after: 0 },
    violations: [],
  };
  const startedMs = Date.now();
  // Those of the preparation, which their clients keep.
  const kept = await openConnections(target.port);
  const sampling = setInterval(() => {
    look(pid).then(
      ({ rssMb, descriptors }) => {
        report.rssMb.most = Math.max(report.rssMb.most, rssMb);
        report.descriptors.most = Math.max(report.descriptors.most, descriptors);
      },
      () => undefined,
    );
  }, SAMPLE_MS);
  try {
    await attack(report);
  } finally {
    clearInterval(sampling);
  }
  const fail = (what: string) => (error: Error) => void report.violations.push(`${what}: ${error.message}`);
  await until(
    () => openConnections(target.port),
    (open) => open <= kept,
    'open connections',
    ENDED_WITHIN_MS,
  ).catch(fail('connections stay open'));
  await judgeLog(target, report).catch(fail('calls stay open'));
  await until(
    () => usage(target),
    ({ limits }) => limits?.every(({ reserved }) => reserved === 0) === true,
    'reserved units',
    ENDED_WITHIN_MS,
  ).catch(fail('reservations are left'));
  const after = await look(pid).catch(() => ({ rssMb: NaN, descriptors: NaN }));
  report.rssMb.after = after.rssMb;
  report.descriptors.after = after.descriptors;
  const probed = (await readProbe(path.join(target.dataDir, 'probes'), pid)).filter(
    ({ at }) => at >= startedMs,
  );
  report.stallMs = longest(probed.map(({ stallMs }) => stallMs));
  report.turnCpuMs = longest(probed.map(({ turnCpuMs }) => turnCpuMs));
  judgeProcess(target, report);
  return report;
}

function judgeProcess({ server, upstream }: Target, { rssMb, descriptors, violations }: TargetReport): void {
  if (Number.isNaN(rssMb.after)) violations.push(`the server has ended:\n${server.output().slice(-4_000)}`);
  const faults = server
    .output()
    .split('\n')
    .filter((line) => /"level":"fatal"|internal error|without a handler/.test(line));
  for (const line of faults.slice(0, VIOLATIONS_MAX)) violations.push(`a fault: ${line}`);
  if (rssMb.most - rssMb.before > RSS_GROWTH_MB_MAX)
    violations.push(`memory grew from ${rssMb.before} to ${rssMb.most} MiB`);
  if (descriptors.after - descriptors.before > upstream.connections + DESCRIPTORS_SPARE)
    violations.push(`${descriptors.after} descriptors are open, and ${descriptors.before} were`);
}

/** Each recorded call has one ending, and none is a fault of the relay. */
async function judgeLog({ store }: Target, report: TargetReport): Promise<void> {
  const log = openLog(store);
  try {
    const events = await until(
      log.read,
      (all) => openRequests(all).length === 0,
      'the last open call',
      ENDED_WITHIN_MS,
    );
    for (const { event } of events) {
      if (event.type === 'request.accepted') report.calls++;
      if (event.type === 'request.abandoned') report.violations.push(`${event.request} was abandoned`);
      if (event.type === 'request.settled' && event.end_reason === 'internal_error')
        report.violations.push(`${event.request} ended by a fault of the relay`);
    }
  } finally {
    await log.close();
  }
}

/** Counts the replies in what a connection received. Only documented refusals may be 5xx. */
export function countReplies(received: string, report: TargetReport): void {
  for (const [, status = ''] of received.matchAll(/HTTP\/1\.1 (\d{3}) /g)) {
    report.statuses[status] = (report.statuses[status] ?? 0) + 1;
    if (Number(status) < 500) continue;
    const codes = [...received.matchAll(/"code":"(\w+)"/g)].map(([, code = '']) => code);
    const isDocumented = codes.some((code) => code !== 'internal_error' && code in API_ERRORS);
    if (!isDocumented) report.violations.push(`an undocumented ${status}: ${received.slice(0, 1_000)}`);
  }
}

/** A connection of its own for each, so that none is left open. */
const agent = new Agent({ keepAlive: false });

async function usage({ port, key }: Target): Promise<{ limits?: { reserved: number }[] }> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${key}` };
    get({ port, host: '127.0.0.1', path: '/v1/usage', headers, agent }, (reply) => {
      let text = '';
      reply.on('data', (bytes: Buffer) => (text += bytes.toString()));
      reply.on('end', () => resolve(JSON.parse(text) as { limits?: { reserved: number }[] }));
    }).on('error', reject);
  });
}

/** Connections of clients that this port still has: established, or closed by the client alone. */
async function openConnections(port: number): Promise<number> {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const lines = (await readFile('/proc/net/tcp', 'utf8')).split('\n');
  return lines
    .map((line) => line.trim().split(/\s+/))
    .filter(
      ([, local, , state]) => local?.endsWith(suffix) && [ESTABLISHED, CLOSE_WAIT].includes(state ?? ''),
    ).length;
}

async function look(pid: number): Promise<{ rssMb: number; descriptors: number }> {
  const [status, descriptors] = await Promise.all([
    readFile(`/proc/${pid}/status`, 'utf8'),
    readdir(`/proc/${pid}/fd`),
  ]);
  const kib = Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1] ?? NaN);
  return { rssMb: Math.round(kib / 1024), descriptors: descriptors.length };
}
