import { setTimeout as wait } from 'node:timers/promises';
import type { PlanTerms, Placed } from '#db/events/events.ts';
import { chat } from '../support/client.ts';
import { openSession } from '../support/database.ts';
import { openRequests } from '../support/faults.ts';
import { type ClientRow, checkIdentity } from '../support/identity/identity.ts';
import { isRunning, liveServers } from '../support/instances.ts';
import { checkLimits } from '../support/identity/limits-identity.ts';
import { changeControl, openLog, until, upstreamsVariable } from '../support/relay.ts';
import { AS_OPERATOR } from '../support/servers/operator.ts';
import { spawnServer } from '../support/servers/server-process.ts';
import { startUpstream } from '../support/upstream/upstream.ts';
import type { Ground } from './ground.ts';
import type { Random } from './random.ts';
import { closedAt, type Finding, unbalanced, type Watched } from './verdict.ts';

/** Replies of all kinds, most of them long enough to be in the middle when something breaks. */
const models = (pace: number): readonly string[] => [
  `s:tokens=40,every=${5 * pace}ms,obey=yes`,
  `s:tokens=200,every=${3 * pace}ms,usage=always,obey=yes`,
  `s:tokens=15,every=${20 * pace}ms,split=random,obey=yes`,
  `s:tokens=30,head=${60 * pace}ms,obey=yes`,
  `s:tokens=400,batch=10,every=${2 * pace}ms,obey=yes`,
];
/** A refused client calls again after this, at pace 1. */
const REFUSED_PAUSE_MS = 25;
const INSTANCES = 3;
const CALL_TIMEOUT_MS = 60_000;
const ENDED_WITHIN_MS = 60_000;
const REPLY_TOKENS_MAX = 500;
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
export type Field = {
  /** One of the three, once all of them are there. */
  pick(): Promise<Breakage>;
  /** Waits until the leases and requests of these are recovered; returns when each was, in ms since 1970. */
  recovered(broken: readonly Breakage[]): Promise<number[]>;
};

/** Breaks instances of a field under `streams` concurrent calls of accounts with quotas. */
export type Phase = {
  streams: number;
  /**
   * How much quota there is at pace 1: enough that most of the phase is near a limit, in multiples of one
   * breakage.
   */
  scale: number;
  run(field: Field): Promise<Breakage[]>;
};

export type FieldOptions = {
  random: Random;
  /** How many times slower replies and clients are, with as much less quota. */
  pace?: number | undefined;
};

/**
 * Runs phases one after another on one field, each with accounts of its own, and judges each once all of its
 * requests have ended; what the allowances say, once the servers have stopped.
 */
export async function runPhases(
  ground: Ground,
  options: FieldOptions,
  phases: readonly Phase[],
): Promise<FieldVerdict[]> {
  await using field = await openField(ground, options);
  const judged: { verdict: FieldVerdict; watched: readonly Watched[] }[] = [];
  for (const phase of phases) {
    const { end, watched } = await field.load(phase);
    judged.push({ verdict: await end(await phase.run(field)), watched });
  }
  const afterwards = await field.stop();
  for (const { verdict, watched } of judged) verdict.violations.push(...(await afterwards(watched)));
  return judged.map(({ verdict }) => verdict);
}

async function openField({ store, url, dataDir }: Ground, { random, pace = 1 }: FieldOptions) {
  const replies = models(pace);
  const upstream = await startUpstream();
  const server = await spawnServer({
    DAYBOOK_DATA: dataDir,
    DATABASE_URL: url,
    DAYBOOK_UPSTREAMS: upstreamsVariable([upstream]),
    DAYBOOK_INSTANCES: String(INSTANCES),
    LOG_LEVEL: process.env['CHAOS_LOG'] ?? 'silent',
  });
  const log = openLog(store);
  const clients: ClientRow[] = [];
  const running = new Set<AbortController>();
  let loads = 0;
  let calls = 0;

  /** An account without a plan, one far from its limits, and one for each kind of quota. */
  async function makeTenants(times: number) {
    const plans: Record<string, { terms: PlanTerms; meter: Watched['meter'] }> = {
      wide: {
        terms: terms({ meter: 'tokens', limit: 10 ** 12, enforcement: 'soft' }),
        meter: 'tokens',
      },
      counted: {
        terms: terms({ meter: 'requests', limit: Math.ceil(12 * times), enforcement: 'hard' }),
        meter: 'requests',
      },
      exact: {
        terms: terms({ meter: 'tokens', limit: Math.ceil(4_000 * times), enforcement: 'hard' }),
        meter: 'tokens',
      },
      soft: {
        terms: terms({ meter: 'tokens', limit: Math.ceil(4_000 * times), enforcement: 'soft' }),
        meter: 'tokens',
      },
    };
    const secrets = [server.firstKey as string];
    const suffix = ++loads;
    const watching: Watched[] = [];
    await changeControl(store, dataDir, async (control, pepper) => {
      for (const [plan, { terms: given, meter }] of Object.entries(plans)) {
        const name = `${plan}-${suffix}`;
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

  async function recovered(broken: readonly Breakage[]): Promise<number[]> {
    const auditor = await openSession(store.config('auditor'));
    try {
      const numbers = broken.map(({ instance }) => instance);
      const closed = await until(
        () => closedAt(auditor, numbers),
        (times) => !times.includes(null),
        'the recoveries',
        ENDED_WITHIN_MS,
      );
      return closed.map((at) => at ?? Infinity);
    } finally {
      await auditor.end();
    }
  }

  return {
    recovered,
    async pick(): Promise<Breakage> {
      const look = async () => (await liveServers(store)).filter(({ pid }) => isRunning(pid));
      const servers = await until(look, (seen) => seen.length === INSTANCES, 'the servers', ENDED_WITHIN_MS);
      const { id, pid } = servers[random.below(servers.length)] as (typeof servers)[number];
      return { instance: id, pid, at: Date.now() };
    },
    /** Begins to call, `streams` at a time, until the end, which says what was found. */
    async load({ streams, scale }: Phase) {
      const { tenants, watched } = await makeTenants(scale / pace);
      const before = await log.read();
      await everyoneKnows(before.at(-1)?.position ?? 0);
      const from = clients.length;
      const findings: Finding[] = [];
      const ending = new AbortController();
      running.add(ending);

      async function caller(number: number): Promise<void> {
        const key = tenants[number % tenants.length] as string;
        while (!ending.signal.aborted) {
          const model = replies[random.below(replies.length)] as string;
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
            findings.push({
              rule: 'P7',
              request: row.requestId ?? body.user,
              message: `was told ${row.status}`,
            });
          if (row.status !== 200) await wait(REFUSED_PAUSE_MS * pace);
        }
      }

      const callers = Array.from({ length: streams }, (_, number) => caller(number));
      const end = async (broken: readonly Breakage[]): Promise<FieldVerdict> => {
        ending.abort();
        await Promise.all(callers);
        const closed = await recovered(broken);
        const events = await until(
          log.read,
          (seen) => openRequests(seen).length === 0,
          'the last open call',
          ENDED_WITHIN_MS,
        );
        const recoveredMs = closed
          .map((at, index) => at - (broken[index]?.at ?? 0))
          .toSorted((left, right) => left - right);
        findings.push(
          ...checkIdentity({ ledger: upstream.ledger.attempts, events, clients, accounting: 'strict' })
            .violations,
          ...checkLimits(events),
          ...recoveredMs
            .filter((ms) => ms > RECOVERED_WITHIN_MS)
            .map((ms) => ({
              rule: 'P4',
              request: '',
              message: `the leases of an instance came back after ${ms} ms`,
            })),
        );
        const own = clients.slice(from);
        return {
          breakages: broken.length,
          calls: own.length,
          statuses: countBy(own.map(({ status }) => String(status))),
          abandoned: countAbandoned(events.slice(before.length)),
          recoveredMs: {
            p50: recoveredMs[Math.floor(recoveredMs.length / 2)] ?? 0,
            max: recoveredMs.at(-1) ?? 0,
          },
          violations: findings,
        };
      };
      return { watched, end };
    },
    /** Stops the servers; what returns finds what the allowances of accounts say then. */
    async stop(): Promise<(watched: readonly Watched[]) => Promise<Finding[]>> {
      const events = await log.read();
      const code = await server.stop();
      const end: Finding[] =
        code === 0 ? [] : [{ rule: 'end', request: '', message: `the server ended with ${code}` }];
      return async (watched) => [...end, ...(await unbalanced(store, events, watched))];
    },
    async [Symbol.asyncDispose]() {
      for (const ending of running) ending.abort();
      await log.close();
      await server.kill();
      await upstream.close();
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
