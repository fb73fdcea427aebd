import { env } from 'node:process';
import { setTimeout as wait } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { EventOf } from '#db/events/events.ts';
import { recoverInstance } from '#db/instances/instance.ts';
import type { Limit, SubjectLimits } from '#db/limits/limits.ts';
import { minuteOf } from '#db/limits/windows.ts';
import { SUBJECTS_USUAL } from '#server/limits/bounds.ts';
import { LeaseClient } from '#server/limits/lease-client.ts';
import { Reservation } from '#server/limits/reservation.ts';
import { randomFrom } from '../chaos/random.ts';
import { createDatabase } from '../support/database.ts';
import { accepted, connectAs, openWriter, settled, type Writer } from '../support/log/log-writer.ts';
import { until } from '../support/relay.ts';
import { Clients, RESERVED, type Target, USED } from './users/clients.ts';
import { Installation } from './users/installation.ts';
import { makePopulation } from './users/population.ts';
import { judge } from './users/verdict.ts';

/**
 * Quotas of very many end users. The suite runs three instances of the lease client in this process, one of
 * which is fenced. The long form is three server processes, one of which the operating system kills:
 * `npm run limits -- --users 1000000 test/limits/users.test.ts`.
 */

const IS_LONG = env['LIMITS_USERS'] !== undefined;
const LONG_USERS = Number(env['LIMITS_USERS']);
const USERS = 600;
/** Of each end user, in its lifetime: two calls and a half. */
const CAP = 25;
const TOKENS = 10;
const CONCURRENT = 64;
const need = { minimum: { tokens: TOKENS, cost: 0 }, wanted: { tokens: TOKENS, cost: 0 } };
const OF_USER: readonly Limit[] = [
  { meter: 'tokens', window: 'lifetime', cap: CAP, enforcement: 'hard', reset: 0 },
];
const OF_ACCOUNT: readonly Limit[] = [
  { meter: 'tokens', window: 'month', cap: 1_000_000_000_000, enforcement: 'hard', reset: 0 },
];
const pseudonym = (user: number): string => `User${String(user).padStart(12, '0')}`;
const subjectsOf = (user: number): SubjectLimits[] => [
  { subject: 'account/Account1', limits: OF_ACCOUNT, position: 1, replyTokensMax: null },
  { subject: `end_user/Account1/${pseudonym(user)}`, limits: OF_USER, position: 1, replyTokensMax: null },
];

type Running = { event: EventOf<'request.accepted'>; hold: Reservation };

/** An instance with its leases and its part of the log. */
class Server {
  readonly writer: Writer;
  readonly limits: LeaseClient;
  calls = 0;
  #position = 0;

  constructor(writer: Writer, connect: () => ReturnType<typeof connectAs>) {
    this.writer = writer;
    this.limits = new LeaseClient({
      connect,
      instance: writer.instance,
      nowMs: () => Date.now(),
      position: () => this.#position,
      onFenced: () => {},
      // The killed one loses its connection; a call of another would not be admitted.
      onError: () => {},
    });
  }

  /**
   * Admits and records calls at the same time.
   * @returns those that run, and the users of the others: `unknown` while the killed instance may hold units.
   */
  async begin(
    users: readonly number[],
  ): Promise<{ running: Running[]; rejected: number[]; unknown: number[] }> {
    this.calls += users.length;
    const outcomes = await Promise.all(users.map(async (user) => this.limits.admit(subjectsOf(user), need)));
    const running: Running[] = [];
    const rejected: number[] = [];
    const unknown: number[] = [];
    for (const [index, hold] of outcomes.entries()) {
      const user = users[index] as number;
      if (!(hold instanceof Reservation)) {
        expect(hold.kind).not.toBe('unavailable');
        (hold.kind === 'short' ? rejected : unknown).push(user);
        continue;
      }
      const who = { account: 'Account1', key: 'Key00001', model: 'm', end_user: pseudonym(user) };
      const admission = { admitted_minute: minuteOf(Date.now()), terms_position: 1 };
      running.push({ event: accepted({ ...who, ...admission, hold_tokens: hold.tokens }), hold });
    }
    if (running.length > 0) this.#position = await this.writer.append(running.map(({ event }) => event));
    return { running, rejected, unknown };
  }

  async end(running: readonly Running[]): Promise<void> {
    if (running.length === 0) return;
    const usage = { input_tokens: 3, output_tokens: TOKENS - 3 };
    const events = running.map(({ event }) => {
      const { end_user = '', admitted_minute = 0, terms_position = 0 } = event;
      return settled(event, { end_user, admitted_minute, terms_position, ...usage });
    });
    this.#position = await this.writer.append(events);
    for (const { hold } of running) this.limits.settle(hold, usage);
  }
}

test.skipIf(IS_LONG)(
  `${USERS} end users over three instances: no quota is exceeded, and none rejects below it`,
  async () => {
    await using database = await createDatabase();
    // Ends the sessions after a failure too, so that the database's own complaint doesn't hide it.
    await using sessions = new AsyncDisposableStack();
    const owner = await connectAs(database, 'owner');
    sessions.defer(() => owner.end());
    const servers: Server[] = [];
    for (let count = 0; count < 3; count++)
      servers.push(new Server(await openWriter(database), () => connectAs(database, 'relay')));
    for (const { writer } of servers) sessions.defer(() => writer.client.end());
    const [dead, heir] = servers as [Server, Server];
    const rejections = new Set<number>();
    const random = randomFrom(7);
    // Three calls of each end user, of which two are within the quota, from all instances.
    const queue = [0, 1, 2].flatMap(() => Array.from({ length: USERS }, (_, user) => user));
    for (let index = queue.length - 1; index > 0; index--) {
      const other = random.below(index + 1);
      [queue[index], queue[other]] = [queue[other] as number, queue[index] as number];
    }
    const take = (): number[] => queue.splice(-CONCURRENT);
    const killAt = queue.length / 2;
    const serve = async (server: Server): Promise<void> => {
      while (queue.length > 0 && !(server === dead && queue.length < killAt)) {
        const { running, rejected } = await server.begin(take());
        for (const user of rejected) rejections.add(user);
        await server.end(running);
      }
    };
    const others = servers.filter((server) => server !== dead).map(serve);
    await serve(dead);
    // It is killed with calls open, and with leases that it never returns.
    const { running: open } = await dead.begin(take());
    expect(open.length).toBeGreaterThan(0);
    await dead.limits.close(0);
    await owner.query('update daybook.instance set dead_at = clock_timestamp() where id = $1', [
      dead.writer.instance,
    ]);
    expect(await recoverInstance(heir.writer.client, dead.writer.instance, heir.writer.instance)).toBe(
      open.length,
    );
    await Promise.all(others);
    // Every end user calls until it is rejected.
    const left = Array.from({ length: USERS }, (_, user) => user);
    while (left.length > 0) {
      const { running, rejected, unknown } = await heir.begin(left.splice(-CONCURRENT));
      for (const user of rejected) rejections.add(user);
      await heir.end(running);
      left.push(...unknown, ...running.map(({ event }) => Number(event.end_user?.slice(4))));
    }
    for (const server of servers) if (server !== dead) await server.limits.close(10_000);

    const { rows } = await owner.query<{ users: number; least: number; most: number; leased: number }>(
      `select count(*)::int as users, min(used + overdrawn)::int as least, max(used + overdrawn)::int as most,
          sum(granted - returned - used)::int as leased
        from daybook.allowance where window_kind = 6`,
    );
    // Twice ten of 25: a third call of ten would exceed each, and each was rejected with less free.
    expect(rows).toEqual([{ users: USERS, least: 20, most: 20, leased: 0 }]);
    expect(rejections.size).toBe(USERS);
    const { rows: total } = await owner.query<{ used: string; charged: string }>(
      `select (select used + overdrawn from daybook.allowance where window_kind = 5)::text as used,
          sum(daybook.charged_units(2::smallint, f))::text as charged
        from daybook.log l cross join string_to_table(l.events, e'\\n') as e(line)
          cross join unnest(array[e.line::daybook.event_fields]) as f
        where l.shard = 0 and f.type in (101, 102)`,
    );
    expect(total[0]?.used).toBe(total[0]?.charged);
    const calls = servers.reduce((sum, server) => sum + server.calls, 0);
    const exchanges = servers.reduce((sum, { limits }) => sum + limits.exchanges, 0);
    // All are near their limits here, where each recall is an exchange: a faster machine has more of them.
    // The long form bounds those far from limits.
    expect(exchanges).toBeLessThan(calls);
    for (const { limits } of servers) expect(limits.subjects).toBeLessThanOrEqual(2 * SUBJECTS_USUAL);
  },
);

/** Connections to each server. */
const CONNECTIONS = 64;
/** Of each end user. Five calls fit: after four of 308 there is room for one reservation more. */
const QUOTA = 4 * USED + RESERVED + 50;
const AFFORDABLE = 5;
/** A server grows by counters of up to 100,000 subjects, pseudonyms of 100,000 values, and unused heap. */
const GROWTH_MB = 400;
const KILLED = 0;
const PROGRESS_CALLS = 100_000;
const RESTARTED_AFTER_MS = 10_000;
/** After this a dead server's calls are ended. */
const RECOVERED_WITHIN_MS = 30_000;

test.runIf(IS_LONG)(
  `${LONG_USERS} end users over three servers, one killed: no quota is exceeded, and none rejects below it`,
  { timeout: 3 * 3_600_000 },
  async () => {
    await using database = await createDatabase();
    await using installation = await Installation.start(database);
    const population = makePopulation(LONG_USERS, AFFORDABLE);
    const tenants = await installation.createAccounts(population.accounts, QUOTA);
    const clients = new Clients({
      population,
      keys: tenants.map(({ secret }) => secret),
    });
    const { record } = clients;
    const startedMs = performance.now();
    let at = 0;
    let killing: Promise<{ recoveryMs: number }> | null = null;
    const kill = async (): Promise<{ recoveryMs: number }> => {
      const dead = await installation.kill(KILLED);
      const killedMs = performance.now();
      const restarting = wait(RESTARTED_AFTER_MS).then(() => installation.restart(KILLED));
      await until(
        async () =>
          (
            await installation.client.query(
              'select from daybook.instance where id = $1 and closed_at is not null',
              [dead],
            )
          ).rowCount,
        (count) => (count ?? 0) > 0,
        'the recovery',
        RECOVERED_WITHIN_MS,
      );
      const recoveryMs = Math.round(performance.now() - killedMs);
      await restarting;
      return { recoveryMs };
    };
    await clients.run(installation.targets, CONNECTIONS, () => {
      const { completed, running } = installation.targets[KILLED] as Target;
      if (at >= population.calls.length / 2 && completed > 0 && running > 1) killing ??= kill();
      if (at % PROGRESS_CALLS === 0) process.stdout.write(`${at} of ${population.calls.length} calls\n`);
      return population.calls[at++] ?? null;
    });
    const { recoveryMs } = await (killing as unknown as Promise<{ recoveryMs: number }>);
    // Those that use most of their quota call until they are rejected.
    const heavy = Array.from({ length: LONG_USERS }, (_, user) => user).filter(population.isHeavy);
    for (let left = heavy; left.length > 0; left = left.filter((user) => record.rejected[user] === 0)) {
      let next = 0;
      await clients.run(installation.targets, CONNECTIONS, () => left[next++] ?? null);
    }
    const secs = (performance.now() - startedMs) / 1_000;
    const { client } = installation;
    await until(
      async () =>
        (
          await client.query<{ behind: string }>(
            `select (select count(*) from projection.running_request)
              + (select daybook.head(0::smallint) - min(position) from daybook.projection) as behind`,
          )
        ).rows[0]?.behind,
      (behind) => behind === '0',
      'the projections',
      600_000,
    );
    await installation.measureTables();
    const cpuSecs = await installation.readCpuSecs();
    await installation.stopServers();
    const verdict = await judge({
      client,
      population,
      tenants,
      record,
      masterKeyFile: installation.masterKeyFile,
      quota: QUOTA,
    });
    const { calls, putOff, faults } = record;
    const cut = record.cut.reduce((sum, each) => sum + each, 0);
    const { exchanges, peaks } = installation;
    process.stdout.write(
      `${JSON.stringify(
        {
          calls,
          rejections: record.rejections.length,
          cut,
          putOff,
          secs: Math.round(secs),
          recoveryMs,
          cpuSecs,
          exchangesPerCall: exchanges / calls,
          ...verdict,
          peaks,
        },
        null,
        2,
      )}\n`,
    );
    expect(faults).toEqual([]);
    expect(cut).toBeGreaterThan(0);
    expect(verdict.abandoned).toBeGreaterThan(0);
    expect(record.rejections.length).toBeGreaterThanOrEqual(heavy.length);
    expect(verdict).toMatchObject({
      users: LONG_USERS,
      overshoot: 0,
      falseRejections: 0,
      open: 0,
      differing: 0,
      allowances: 0,
      windows: 0,
      leased: 0,
    });
    expect(exchanges / calls).toBeLessThan(0.2);
    for (const [server, most] of peaks.serverMb.entries())
      expect(most - (peaks.startMb[server] ?? 0)).toBeLessThan(GROWTH_MB);
  },
);
