import { setTimeout as wait } from 'node:timers/promises';
import { startEmbedded } from '#db/postgres/embedded/embedded.ts';
import type { PlanTerms, Placed } from '#db/events/events.ts';
import { chat } from '../support/client.ts';
import { makeClusterDirectory } from '../support/cluster-copy.ts';
import { removeTestDirectory } from '../support/directory.ts';
import { openRequests } from '../support/faults.ts';
import { type ClientRow, checkIdentity } from '../support/identity/identity.ts';
import { isRunning, liveServers } from '../support/instances.ts';
import { checkLimits } from '../support/identity/limits-identity.ts';
import { changeControl, openLog, until, upstreamsVariable } from '../support/relay.ts';
import { AS_OPERATOR } from '../support/servers/operator.ts';
import { spawnServer } from '../support/servers/server-process.ts';
import { startUpstream } from '../support/upstream/upstream.ts';
import { databaseUrlOf } from '../support/database-url.ts';
import type { Random } from './random.ts';
import { closedAt, type Finding, unbalanced, type Watched } from './verdict.ts';

/** Replies of all kinds, most of them long enough to be in the middle when something breaks. */
const MODELS = [
  's:tokens=40,every=5ms,obey=yes',
  's:tokens=200,every=3ms,usage=always,obey=yes',
  's:tokens=15,every=20ms,split=random,obey=yes',
  's:tokens=30,head=60ms,obey=yes',
  's:tokens=400,batch=10,every=2ms,obey=yes',
];
const INSTANCES = 3;
const CALL_TIMEOUT_MS = 60_000;
const ENDED_WITHIN_MS = 60_000;
const REPLY_TOKENS_MAX = 500;
/** Who is refused comes again after a moment, as a client would. */
const REFUSED_PAUSE_MS = 25;
/** The issue's own demand: dead after five seconds, and recovered. */
const RECOVERED_WITHIN_MS = 30_000;

/** One instance that was broken on purpose: which, and when. */
export type Breakage = { instance: number; pid: number; at: number };

export type FieldVerdict = {
  breakages: number;
  calls: number;
  statuses: Record<string, number>;
  abandoned: number;
  recoveredMs: { p50: number; max: number };
  violations: Finding[];
};

/** Three server processes on one port, their worker, and a PostgreSQL that outlives them all. */
export type Field = AsyncDisposable & {
  /** Begins to call, `streams` at a time, until the judgement. */
  load(streams: number): void;
  /** One of the three, once all of them are there. */
  pick(): Promise<Breakage>;
  /** Ends the load, waits until every call has its ending, and says what was found. */
  judge(broken: readonly Breakage[]): Promise<FieldVerdict>;
};

/**
 * Sets up the field.
 * @param scale how much quota there is: enough that most of the run is near a limit, in multiples of one
 * breakage.
 */
export async function openField(random: Random, scale: number): Promise<Field> {
  const dataDir = await makeClusterDirectory();
  const embedded = await startEmbedded({ dataDir, log: () => {} });
  const upstream = await startUpstream();
  const server = await spawnServer({
    DAYBOOK_DATA: dataDir,
    DATABASE_URL: await databaseUrlOf(embedded.config('owner')),
    DAYBOOK_UPSTREAMS: upstreamsVariable([upstream]),
    DAYBOOK_INSTANCES: String(INSTANCES),
    LOG_LEVEL: process.env['CHAOS_LOG'] ?? 'silent',
  });
  const { tenants, watched } = await makeTenants(scale);
  const log = openLog(embedded);
  await everyoneKnows((await log.read()).at(-1)?.position ?? 0);
  const clients: ClientRow[] = [];
  const findings: Finding[] = [];
  const ending = new AbortController();
  let callers: Promise<void>[] = [];
  let calls = 0;

  /** An account without a plan, one far from its limits, and one for each kind of quota. */
  async function makeTenants(times: number) {
    const plans: Record<string, { terms: PlanTerms; meter: Watched['meter'] }> = {
      wide: {
        terms: terms({ meter: 'tokens', limit: 10 ** 12, enforcement: 'soft' }),
        meter: 'tokens',
      },
      counted: {
        terms: terms({ meter: 'requests', limit: 12 * times, enforcement: 'hard' }),
        meter: 'requests',
      },
      exact: {
        terms: terms({ meter: 'tokens', limit: 4_000 * times, enforcement: 'hard' }),
        meter: 'tokens',
      },
      soft: {
        terms: terms({ meter: 'tokens', limit: 4_000 * times, enforcement: 'soft' }),
        meter: 'tokens',
      },
    };
    const secrets = [server.firstKey as string];
    const watching: Watched[] = [];
    await changeControl(embedded, dataDir, async (control, pepper) => {
      for (const [name, { terms: given, meter }] of Object.entries(plans)) {
        const { id } = await control.createAccount(name);
        await control.definePlan(name, given, 'keep');
        await control.setPlan(name, name, 'keep');
        const key = await control.createKey(pepper, { account: name, name: 'key', expiresAt: null });
        secrets.push(key.secret);
        watching.push({ account: id, meter });
      }
    });
    return { tenants: secrets, watched: watching };
  }

  /** Waits until each of the processes has taken in the log up to this position. */
  async function everyoneKnows(position: number): Promise<void> {
    const informed = new Set<number>();
    const look = async (): Promise<number> => {
      const reply = await fetch(`http://127.0.0.1:${server.port}/readyz`, {
        headers: { connection: 'close', ...AS_OPERATOR },
      });
      const seen = (await reply.json()) as { instance: number; read_model: { position: number } };
      if (seen.read_model.position >= position) informed.add(seen.instance);
      return informed.size;
    };
    await until(look, (count) => count === INSTANCES, 'the read models');
  }

  async function caller(number: number): Promise<void> {
    const key = tenants[number % tenants.length] as string;
    while (!ending.signal.aborted) {
      const model = MODELS[random.below(MODELS.length)] as string;
      const body = {
        model,
        user: `call-${++calls}`,
        stream: random.below(4) > 0,
        messages: [{ role: 'user', content: 'hi' }],
      };
      const row = await chat({ port: server.port, key, body, timeoutMs: CALL_TIMEOUT_MS });
      clients.push(row);
      if (row.problem === 'timeout')
        findings.push({ rule: 'P10', request: row.requestId ?? body.user, message: 'was left waiting' });
      if (row.status === 401 || row.status === 403)
        findings.push({ rule: 'P7', request: row.requestId ?? body.user, message: `was told ${row.status}` });
      if (row.status !== 200) await wait(REFUSED_PAUSE_MS);
    }
  }

  return {
    load(streams) {
      callers = Array.from({ length: streams }, (_, number) => caller(number));
    },
    async pick() {
      const look = async () => (await liveServers(embedded)).filter(({ pid }) => isRunning(pid));
      const servers = await until(look, (seen) => seen.length === INSTANCES, 'the servers', ENDED_WITHIN_MS);
      const { id, pid } = servers[random.below(servers.length)] as (typeof servers)[number];
      return { instance: id, pid, at: Date.now() };
    },
    async judge(broken) {
      ending.abort();
      await Promise.all(callers);
      const numbers = broken.map(({ instance }) => instance);
      const closed = await until(
        () => closedAt(embedded, numbers),
        (times) => !times.includes(null),
        'the recoveries',
        ENDED_WITHIN_MS,
      );
      const events = await until(
        log.read,
        (seen) => openRequests(seen).length === 0,
        'the last open call',
        ENDED_WITHIN_MS,
      );
      await log.close();
      const code = await server.stop();
      const recoveredMs = closed
        .map((at, index) => (at ?? Infinity) - (broken[index]?.at ?? 0))
        .toSorted((left, right) => left - right);
      findings.push(
        ...checkIdentity({ ledger: upstream.ledger.attempts, events, clients, accounting: 'strict' })
          .violations,
        ...checkLimits(events),
        ...(await unbalanced(embedded, events, watched)),
        ...recoveredMs
          .filter((ms) => ms > RECOVERED_WITHIN_MS)
          .map((ms) => ({
            rule: 'P4',
            request: '',
            message: `the leases of an instance came back after ${ms} ms`,
          })),
        ...(code === 0 ? [] : [{ rule: 'end', request: '', message: `the server ended with ${code}` }]),
      );
      return {
        breakages: broken.length,
        calls: clients.length,
        statuses: countBy(clients.map(({ status }) => String(status))),
        abandoned: countAbandoned(events),
        recoveredMs: {
          p50: recoveredMs[Math.floor(recoveredMs.length / 2)] ?? 0,
          max: recoveredMs.at(-1) ?? 0,
        },
        violations: findings,
      };
    },
    async [Symbol.asyncDispose]() {
      ending.abort();
      await Promise.all(callers);
      await log.close();
      await server.kill();
      await upstream.close();
      await embedded.stop();
      await removeTestDirectory(dataDir);
    },
  };
}

const CONCURRENT_MAX = 40;

function terms({
  meter,
  limit,
  enforcement,
}: {
  meter: 'requests' | 'tokens';
  limit: number;
  enforcement: 'hard' | 'soft';
}): PlanTerms {
  return {
    concurrent_requests: CONCURRENT_MAX,
    reply_tokens_max: REPLY_TOKENS_MAX,
    quotas: [{ meter, window: 'month', limit, enforcement }],
  };
}

function countBy(names: readonly string[]): Record<string, number> {
  return Object.fromEntries(
    Object.entries(Object.groupBy(names, (name) => name)).map(([name, all]) => [name, all?.length ?? 0]),
  );
}

const countAbandoned = (events: readonly Placed[]): number =>
  events.filter(({ event }) => event.type === 'request.abandoned').length;
