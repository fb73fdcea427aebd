import path from 'node:path';
import type { PlanTerms, Placed } from '#db/events/events.ts';
import type { Store } from '#db/postgres/connect.ts';
import { readConfig } from '#server/process/config.ts';
import type { Control } from '#server/control/control.ts';
import type { Usage } from '#server/relay/usage-report.ts';
import { type RunningServer, startServer } from '#server/process/server.ts';
import { createLogger } from '#db/diagnostics/logger.ts';
import { chat, type ChatOptions, type ChatReply } from './client.ts';
import { makeTestDirectory, removeTestDirectory } from './directory.ts';
import { openRequests } from './faults.ts';
import { changeControl, makePlace, openLog, readiness, type UpstreamEntry, until } from './relay.ts';

export type FleetOptions = {
  /** How many servers; 3 unless told otherwise. */
  instances?: number;
  upstreams: readonly UpstreamEntry[];
  /**
   * What the first account may use: the terms of a plan named `fleet`, which it is on. Absent: it is on none.
   */
  plan?: PlanTerms;
  env?: Record<string, string>;
};

/** Several servers in this process, on one database, with one pepper and master key, each on its own port. */
export type Fleet = AsyncDisposable & {
  readonly ports: readonly number[];
  /** The data directory of the first server, which has the setup link. */
  readonly dataDir: string;
  /** The name and id of the account of the first start, and its key with its id. */
  readonly account: string;
  readonly accountId: string;
  readonly key: string;
  readonly keyId: string;
  readonly store: Store;
  /** Changes accounts, plans and keys as the command line does; returns when every server has taken it in. */
  control<T>(use: (control: Control, pepper: Buffer) => Promise<T>): Promise<T>;
  /** The same without waiting for the servers. */
  change<T>(use: (control: Control, pepper: Buffer) => Promise<T>): Promise<T>;
  /** A further key; of the first account unless another is named. */
  createKey(options?: { account?: string }): Promise<{ id: string; secret: string }>;
  /** A new account on a plan of its own with these terms, both of this name, and a key of it. */
  tenant(name: string, terms: PlanTerms): Promise<Tenant>;
  /** Makes one call at the instance of this number, counted round and round. */
  chat(instance: number, options: Omit<ChatOptions, 'port'>): Promise<ChatReply>;
  /** What `GET /v1/usage` says. */
  usage(key?: string, instance?: number): Promise<Usage>;
  /** The same when no limit has anything held any more: endings are told to the store a little later. */
  settledUsage(key?: string, instance?: number): Promise<Usage>;
  /** The whole log, in order. */
  readLog(): Promise<Placed[]>;
  /** Reads the log again and again until it satisfies a condition. @throws {Error} after two minutes. */
  waitFor(condition: (events: readonly Placed[]) => boolean): Promise<Placed[]>;
  /** The log when each call in it has its ending. */
  settledLog(): Promise<Placed[]>;
  /** Ends one of the servers as SIGTERM does. */
  stop(instance: number): Promise<void>;
};

export type Tenant = { account: string; key: string; secret: string };

const PLAN = 'fleet';

/** Starts a fleet. It is stopped, and its database and directories removed, on dispose. */
export async function startFleet({ instances = 3, upstreams, plan, env = {} }: FleetOptions): Promise<Fleet> {
  const place = await makePlace({ upstreams });
  const { store } = place;
  if (!store) throw new Error('a fleet needs a database of the common cluster');
  const directories: string[] = [];
  const start = async (dataDir: string): Promise<RunningServer> => {
    const config = readConfig({
      ...place.env,
      ...env,
      DAYBOOK_DATA: dataDir,
      DAYBOOK_PEPPER_FILE: path.join(place.dataDir, 'pepper'),
      DAYBOOK_MASTER_KEY_FILE: path.join(place.dataDir, 'master-key'),
    });
    return startServer(config, createLogger('silent'));
  };
  const further = async (): Promise<RunningServer> => {
    const directory = await makeTestDirectory();
    directories.push(directory);
    return start(directory);
  };
  const first = await start(place.dataDir);
  const servers = [first, ...(await Promise.all(Array.from({ length: instances - 1 }, further)))];
  const ports = servers.map(({ baseUrl }) => Number(new URL(baseUrl).port));
  if (!first.firstKey) throw new Error('the fleet did not start on an empty store of its own');
  const { account, secret: key } = first.firstKey;
  const log = openLog(store);
  const stops = new Map<RunningServer, Promise<void>>();
  const stop = (server: RunningServer): Promise<void> => {
    const stopping = stops.get(server) ?? server.stop();
    stops.set(server, stopping);
    return stopping;
  };
  const portOf = (instance: number): number => ports[instance % ports.length] as number;

  const change: Fleet['change'] = (use) => changeControl(store, place.dataDir, use);
  const control: Fleet['control'] = async (use) => {
    const result = await change(use);
    const newest = (await log.read()).findLast(({ stream }) => stream !== null)?.position ?? 0;
    const running = ports.filter((_, index) => !stops.has(servers[index] as RunningServer));
    await until(
      () => Promise.all(running.map(readiness)),
      (all) => all.every(({ position }) => position >= newest),
      'the read models',
    );
    return result;
  };
  const usage: Fleet['usage'] = async (secret = key, instance = 0) => {
    const reply = await fetch(`http://127.0.0.1:${portOf(instance)}/v1/usage`, {
      headers: { authorization: `Bearer ${secret}` },
    });
    return (await reply.json()) as Usage;
  };
  if (plan) {
    await control(async (commands) => {
      await commands.definePlan(PLAN, plan, 'keep');
      await commands.setPlan(account, PLAN, 'keep');
    });
  }
  const [accountId, keyId] = firstIds(await log.read());

  return {
    ports,
    dataDir: place.dataDir,
    account,
    accountId,
    key,
    keyId,
    store,
    control,
    change,
    createKey: ({ account: owner = account } = {}) =>
      control((commands, pepper) =>
        commands.createKey(pepper, { account: owner, name: 'key', expiresAt: null }),
      ),
    tenant: (name, terms) =>
      control(async (commands, pepper) => {
        const { id } = await commands.createAccount(name);
        await commands.definePlan(name, terms, 'keep');
        await commands.setPlan(name, name, 'keep');
        const made = await commands.createKey(pepper, { account: name, name: 'key', expiresAt: null });
        return { account: id, key: made.id, secret: made.secret };
      }),
    chat: (instance, options) => chat({ key, ...options, port: portOf(instance) }),
    usage,
    settledUsage: (secret, instance) =>
      until(
        () => usage(secret, instance),
        ({ limits }) => limits.every(({ reserved: held }) => held === 0),
        'what is held',
      ),
    readLog: log.read,
    waitFor: (condition) => until(log.read, condition, 'the log'),
    settledLog: () => until(log.read, (events) => openRequests(events).length === 0, 'the last open call'),
    stop: (instance) => stop(servers[instance] as RunningServer),
    async [Symbol.asyncDispose]() {
      await Promise.all(servers.map(stop));
      await log.close();
      await Promise.all(directories.map(removeTestDirectory));
      await place[Symbol.asyncDispose]();
    },
  };
}

function firstIds(events: readonly Placed[]): [account: string, key: string] {
  for (const { event } of events) if (event.type === 'key.created') return [event.account, event.key];
  throw new Error('the log has no key');
}
