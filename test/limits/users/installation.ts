import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { readMembers, readUsage } from '../../../bench/machine/cpu.ts';
import type { Client } from 'pg';
import type { TestDatabase } from '../../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../../support/directory.ts';
import { changeControl, readiness, until, upstreamsVariable } from '../../support/relay.ts';
import { AS_OPERATOR } from '../../support/servers/operator.ts';
import { type ServerProcess, spawnServer } from '../../support/servers/server-process.ts';
import { refusedPort } from '../../support/upstream/upstream.ts';
import { MODEL, type Target } from './clients.ts';

/** Three server processes on one database, before a mock upstream, and what they use. */

const SERVERS = 3;
const SAMPLE_MS = 1_000;
const MOCK = path.join(import.meta.dirname, '../../../bench/upstream/main.ts');
const MOCK_READY_WITHIN_MS = 10_000;
/** How often it is stopped to look whether calls are running, for how long, and how long it runs between. */
const STOPS_MAX = 100;
const STOPPED_MS = 50;
const RUNNING_MS = 100;
const RECENT_EVENTS = 2_000;

export type Tenant = { account: string; secret: string };

/** The greatest values of the run. */
export type Peaks = {
  /** Resident memory of each server process, in MB, and just after its start. */
  serverMb: number[];
  startMb: number[];
  /** Tables with their indexes, in MB. */
  tablesMb: Record<string, number>;
};

export class Installation implements AsyncDisposable {
  readonly targets: Target[] = [];
  readonly peaks: Peaks = { serverMb: [], startMb: [], tablesMb: {} };
  readonly #database: TestDatabase;
  readonly #environments: Record<string, string>[] = [];
  readonly #servers: ServerProcess[] = [];
  /** Lease requests of each process that there was, as it last reported them. */
  readonly #exchanges = new Map<number, number>();
  /** The number in the database of each running server. */
  readonly #instances: number[] = [];
  /** CPU time of each server process that there was, in microseconds. */
  readonly #cpuUs = new Map<number, number>();
  readonly #directories: string[] = [];
  #mock: { pid: number; stop: () => void } | null = null;
  #client!: Client;
  #sampling: Promise<void> | null = null;
  #isOver = false;

  /** Of the first server: the others share its secrets. */
  #dataDir = '';

  private constructor(database: TestDatabase) {
    this.#database = database;
  }

  static async start(database: TestDatabase): Promise<Installation> {
    const installation = new Installation(database);
    const port = await refusedPort();
    const mock = spawn(process.execPath, [MOCK, String(port)], { stdio: 'ignore' });
    installation.#mock = { pid: mock.pid as number, stop: () => mock.kill('SIGKILL') };
    await until(
      () =>
        fetch(`http://127.0.0.1:${port}`, { method: 'POST', body: '{}' }).then(
          () => true,
          () => false,
        ),
      (isUp) => isUp,
      'the mock upstream',
      MOCK_READY_WITHIN_MS,
    );
    for (let index = 0; index < SERVERS; index++) {
      const directory = await makeTestDirectory();
      installation.#directories.push(directory);
      installation.#dataDir ||= directory;
      installation.#environments.push({
        DATABASE_URL: database.url,
        DAYBOOK_DATA: directory,
        DAYBOOK_PEPPER_FILE: path.join(installation.#dataDir, 'pepper'),
        DAYBOOK_MASTER_KEY_FILE: installation.masterKeyFile,
        DAYBOOK_UPSTREAMS: upstreamsVariable([{ baseUrl: `http://127.0.0.1:${port}/v1`, models: [MODEL] }]),
        // One worker, beside a server that is not killed.
        DAYBOOK_WORKER: index === SERVERS - 1 ? 'on' : 'off',
        LOG_LEVEL: 'error',
      });
      installation.targets.push({ port: 0, isUp: false, completed: 0, running: 0 });
      await installation.#startServer(index);
    }
    installation.#client = await database.superuser();
    installation.#sampling = installation.#sample();
    return installation;
  }

  /** Makes accounts on one plan, with a key each; returns when every server has them. */
  async createAccounts(count: number, quota: number): Promise<Tenant[]> {
    const tenants = await changeControl(this.#database, this.#dataDir, async (control, pepper) => {
      const made: Tenant[] = [];
      await control.definePlan(
        'users',
        {
          quotas: [
            { meter: 'tokens', window: 'lifetime', per: 'end_user', limit: quota, enforcement: 'hard' },
            { meter: 'tokens', window: 'month', limit: 1_000_000_000_000, enforcement: 'hard' },
          ],
        },
        'keep',
      );
      for (let index = 0; index < count; index++) {
        const name = `account-${index}`;
        const { id } = await control.createAccount(name);
        await control.setPlan(name, 'users', 'keep');
        const key = await control.createKey(pepper, { account: name, name: 'key', expiresAt: null });
        made.push({ account: id, secret: key.secret });
      }
      return made;
    });
    const { rows } = await this.#client.query<{ head: string }>('select daybook.head(0::smallint) as head');
    await until(
      () => Promise.all(this.targets.map(({ port }) => readiness(port))),
      (all) => all.every(({ position }) => position >= Number(rows[0]?.head)),
      'the read models',
    );
    return tenants;
  }

  /**
   * Kills a server and all of its processes, as the kernel does when memory is out, while calls that it
   * recorded are running. Its clients call in step, so that at many moments there is none.
   * @returns its number in the database.
   */
  async kill(index: number): Promise<number> {
    const server = this.#servers[index] as ServerProcess;
    const instance = this.#instances[index] as number;
    for (let times = 0; times < STOPS_MAX; times++) {
      process.kill(server.pid, 'SIGSTOP');
      // What it has sent before, PostgreSQL commits meanwhile.
      await wait(STOPPED_MS);
      const { rowCount } = await this.#client.query(
        `select request from daybook.events((select daybook.head(0::smallint)) - $2::bigint)
          where instance = $1 and type in (100, 101)
          group by request having max(type) = 100 limit 1`,
        [instance, RECENT_EVENTS],
      );
      if (rowCount === 1) break;
      process.kill(server.pid, 'SIGCONT');
      await wait(Math.random() * RUNNING_MS);
    }
    (this.targets[index] as Target).isUp = false;
    for (const pid of readMembers({ root: server.pid, except: [] }))
      if (pid !== server.pid) process.kill(pid, 'SIGKILL');
    await server.kill();
    return instance;
  }

  async restart(index: number): Promise<void> {
    await this.#startServer(index);
  }

  /** The sum of lease requests. */
  get exchanges(): number {
    return [...this.#exchanges.values()].reduce((sum, each) => sum + each, 0);
  }

  /** CPU seconds: of the servers, of PostgreSQL and what else runs below it, of the mock, of the clients. */
  async readCpuSecs(): Promise<{ servers: number; postgres: number; mock: number; clients: number }> {
    const { rows } = await this.#client.query<{ pid: number }>('select pg_backend_pid() as pid');
    const stat = readFileSync(`/proc/${rows[0]?.pid}/stat`, 'latin1');
    const postmaster = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
    const secsOf = (root: number): number => Math.round(readUsage({ root, except: [] }).cpuUs / 1e6);
    const { user, system } = process.cpuUsage();
    return {
      servers: Math.round([...this.#cpuUs.values()].reduce((sum, each) => sum + each, 0) / 1e6),
      postgres: secsOf(postmaster),
      mock: secsOf(this.#mock?.pid ?? 0),
      clients: Math.round((user + system) / 1e6),
    };
  }

  /** Stops the servers, which return their leases. */
  async stopServers(): Promise<void> {
    this.#isOver = true;
    await this.#sampling;
    await this.#look();
    // One after the other: they close leases of the same end users.
    for (const [index, target] of this.targets.entries()) {
      if (!target.isUp) continue;
      target.isUp = false;
      await this.#servers[index]?.stop();
    }
  }

  get masterKeyFile(): string {
    return path.join(this.#dataDir, 'master.key');
  }

  /** With the superuser's rights. */
  get client(): Client {
    return this.#client;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stopServers();
    await this.#client.end();
    this.#mock?.stop();
    await Promise.all(this.#directories.map(removeTestDirectory));
  }

  async #startServer(index: number): Promise<void> {
    const server = await spawnServer(this.#environments[index] as Record<string, string>);
    this.#servers[index] = server;
    this.peaks.startMb[index] = readUsage({ root: server.pid, except: [] }).rssKb / 1024;
    Object.assign(this.targets[index] as Target, { port: server.port, isUp: true });
  }

  async #sample(): Promise<void> {
    while (!this.#isOver) {
      await this.#look();
      await wait(SAMPLE_MS);
    }
  }

  async #look(): Promise<void> {
    for (const [index, { pid }] of this.#servers.entries()) {
      const target = this.targets[index] as Target;
      if (!target.isUp) continue;
      // The worker is not part of the server that is measured.
      const [, ...below] = readMembers({ root: pid, except: [] });
      const { cpuUs, rssKb } = readUsage({ root: pid, except: below });
      this.#cpuUs.set(pid, cpuUs);
      this.peaks.serverMb[index] = Math.max(this.peaks.serverMb[index] ?? 0, Math.round(rssKb / 1024));
      const state = await fetch(`http://127.0.0.1:${target.port}/readyz`, { headers: AS_OPERATOR })
        .then((reply) => reply.json() as Promise<{ instance: number; limits: { exchanges: number } }>)
        // It is being killed.
        .catch(() => null);
      if (state === null) continue;
      this.#exchanges.set(pid, state.limits.exchanges);
      this.#instances[index] = state.instance;
    }
  }

  async measureTables(): Promise<void> {
    const { rows } = await this.#client.query<{ name: string; mb: number }>(
      `select c.oid::regclass::text as name, round(pg_total_relation_size(c.oid) / 1048576.0)::int as mb
        from pg_class c where c.oid = any (array['daybook.allowance', 'daybook.lease',
          'daybook.attribution_value', 'projection.quota_window']::regclass[])`,
    );
    for (const { name, mb } of rows) this.peaks.tablesMb[name] = mb;
  }
}
