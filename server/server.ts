import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { hostname } from 'node:os';
import { closeClient, type Store } from '#db/connect.ts';
import { recoverInstance, registerInstance, retireInstance } from '#db/instance.ts';
import { type Follower, follow } from '#db/log/follow.ts';
import { migrate } from '#db/migrate.ts';
import { createServer } from '#server/app.ts';
import { Appender } from '#server/appender.ts';
import { DRAIN_MS, LISTEN_BACKLOG } from '#server/bounds.ts';
import { type Config, ConfigError } from '#server/config.ts';
import { withControl } from '#server/control.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { startDemoUpstream } from '#server/demo-upstream.ts';
import { joinMembership, type Membership } from '#server/membership.ts';
import { keepPartitions, makePartitions, PARTITION_CHECK_MS } from '#server/partitions.ts';
import { loadPepper } from '#server/pepper.ts';
import { ReadModel } from '#server/read-model.ts';
import { Admission } from '#server/relay/admit.ts';
import type { Relay } from '#server/relay/chat-completions.ts';
import { Deadlines } from '#server/relay/deadlines.ts';
import { ModelTable } from '#server/relay/dispatch.ts';
import { ModelList } from '#server/relay/model-list.ts';
import { openUpstream } from '#server/relay/upstream.ts';
import { connectRelay, openStore } from '#server/store.ts';
import { errorFields, type Logger } from '#server/telemetry.ts';

export type RunningServer = {
  /** What clients set as their base URL. */
  baseUrl: string;
  /** The upstreams with the models each serves, a line each. */
  models: string[];
  /** The key of the very first start, else null. Its secret is nowhere else. */
  firstKey: { account: string; secret: string } | null;
  /** Takes no new calls, lets running replies end, and closes everything in order. */
  stop(): Promise<void>;
};

const FIRST_ACCOUNT = 'first';
/** Searching the log for what a dead instance left open, from its oldest open request on. */
const RECOVERY_TIMEOUT_MS = 60_000;
/** How long a stopping server waits for the store to take the last endings. */
const LAST_ENDINGS_MS = 5_000;

/**
 * Composes a server from its configuration: store, log, read model, upstreams, HTTP.
 * @throws {ConfigError | StoreError} with one line for the operator.
 */
export async function startServer(config: Config, log: Logger): Promise<RunningServer> {
  const note = (line: string): void => log.info(line);
  const { store, close: closeStore } = await openStore(config, note);
  try {
    return await serve(config, log, store, closeStore);
  } catch (error) {
    await closeStore();
    throw error;
  }
}

async function serve(config: Config, log: Logger, store: Store, closeStore: () => Promise<void>): Promise<RunningServer> {
  await migrate(store);
  await makePartitions(store);
  const setup = await connectRelay(store);
  const pepper = await loadPepper(setup, config);
  await closeClient(setup);

  const readModel = new ReadModel();
  const follower = await followControl(store, readModel, log);
  const firstKey = readModel.size.accounts === 0 ? await createFirstKey(store, pepper) : null;

  const demo = await startDemoUpstream();
  const configs = [...config.upstreams, demo.config];
  const upstreams = configs.map((each) => openUpstream(each, config.UPSTREAM_CONNECT_TIMEOUT_MS));
  const models = new ModelTable(upstreams);

  const seat = new Seat(store, readModel, log);
  const relay: Relay = {
    readModel,
    pepper,
    appender: await seat.take(),
    admission: new Admission(),
    models,
    deadlines: new Deadlines(),
    timeouts: {
      firstByteMs: config.UPSTREAM_FIRST_BYTE_TIMEOUT_MS,
      idleMs: config.UPSTREAM_IDLE_TIMEOUT_MS,
      totalMs: config.UPSTREAM_TOTAL_TIMEOUT_MS,
    },
    maxBodyBytes: config.MAX_BODY_MB * 1024 * 1024,
    overlapped: config.ACCOUNTING === 'overlapped',
    draining: false,
    running: new Set(),
  };
  seat.onLost = async () => {
    // Others have ended our requests already, so nothing more of them may reach a client.
    for (const delivery of [...relay.running]) delivery.fail('store_unavailable', 'shed');
    relay.appender = await seat.take();
  };

  const http = listenable(config, { relay, modelList: new ModelList(models, upstreams), log, tls: config.tls });
  const port = await listen(http, config);
  const partitions = keepPartitions(store, PARTITION_CHECK_MS, (error) =>
    log.error(errorFields(error), "making the log's next partitions failed; it is tried again"),
  );
  return {
    baseUrl: `${config.tls ? 'https' : 'http'}://${visibleHost(config.HOST)}:${port}/v1`,
    models: configs.map((each) => `${each.name} (${each.models.join(', ')})`),
    firstKey,
    async stop() {
      relay.draining = true;
      partitions.close();
      http.close();
      http.closeIdleConnections();
      await drained(relay);
      http.closeAllConnections();
      await seat.leave();
      await follower.close();
      await Promise.all(upstreams.map((upstream) => upstream.close()));
      await demo.close();
      await closeStore();
    },
  };
}

/** Starts to follow accounts and keys; resolves when the log has been read to its head once. */
async function followControl(store: Store, readModel: ReadModel, log: Logger): Promise<Follower> {
  const current = Promise.withResolvers<void>();
  const follower = follow({
    config: store.config('relay'),
    scope: 'control',
    after: 0,
    onPage: (events) => readModel.apply(events),
    onCurrent: () => {
      readModel.markCurrent();
      current.resolve();
    },
    onError: (error) => log.warn(errorFields(error), 'following the log failed; it is tried again'),
    pauseMs: 0,
  });
  await current.promise;
  return follower;
}

/** Null when another server, which started on this empty database at the same moment, was first. */
async function createFirstKey(store: Store, pepper: Buffer): Promise<RunningServer['firstKey']> {
  return withControl(store, 'first-start', async (control) => {
    try {
      await control.createAccount(FIRST_ACCOUNT);
    } catch (error) {
      if (error instanceof DecisionError && error.code === 'already_exists') return null;
      throw error;
    }
    const { secret } = await control.createKey(pepper, { account: FIRST_ACCOUNT, name: 'first key', expiresAt: null });
    return { account: FIRST_ACCOUNT, secret };
  });
}

/**
 * This process's place in the log: an instance that may append, and its membership. When it is
 * lost, because others thought us dead, a new one is taken under a new number.
 */
class Seat {
  readonly #store: Store;
  readonly #readModel: ReadModel;
  readonly #log: Logger;
  #instance = 0;
  #appender: Appender | undefined;
  #membership: Membership | undefined;
  onLost: () => Promise<void> = async () => {};

  constructor(store: Store, readModel: ReadModel, log: Logger) {
    this.#store = store;
    this.#readModel = readModel;
    this.#log = log;
  }

  async take(): Promise<Appender> {
    const client = await connectRelay(this.#store);
    const instance = await registerInstance(client, `server ${hostname()} ${process.pid}`);
    await closeClient(client);
    let lost = false;
    const onFenced = (): void => {
      if (lost) return;
      lost = true;
      this.#log.error({ instance }, 'this instance was declared dead; its calls are cut and it starts again as a new one');
      void this.#replace();
    };
    const appender = new Appender({
      connect: () => connectRelay(this.#store),
      instance,
      onFenced,
      onError: (problem, error) => this.#log.error({ problem, ...errorFields(error) }, 'appending to the log failed'),
    });
    this.#instance = instance;
    this.#appender = appender;
    this.#membership = await joinMembership({
      connect: () => connectRelay(this.#store),
      instance,
      openFrom: () => appender.openFrom,
      onClock: (now) => this.#readModel.setClock(now),
      onFenced,
      recover: (dead) => this.#recover(dead, instance),
      onError: (error) => this.#log.warn(errorFields(error), 'a heartbeat failed; it is tried again'),
    });
    return appender;
  }

  async #recover(dead: number, by: number): Promise<void> {
    const client = await connectRelay(this.#store, RECOVERY_TIMEOUT_MS);
    try {
      const abandoned = await recoverInstance(client, dead, by);
      this.#log.warn({ instance: dead, abandoned }, 'another instance is dead; what it left open was ended');
    } finally {
      await closeClient(client);
    }
  }

  async #replace(): Promise<void> {
    await this.#membership?.close();
    await this.#appender?.close(0);
    for (;;) {
      try {
        return await this.onLost();
      } catch (error) {
        this.#log.warn(errorFields(error), 'taking a new place in the log failed; it is tried again');
        await new Promise((resolve) => setTimeout(resolve, 1_000));
      }
    }
  }

  async leave(): Promise<void> {
    await this.#appender?.close(LAST_ENDINGS_MS);
    await this.#membership?.close();
    // What could not be settled is left to be recovered, like that of an instance that was killed.
    if (this.#appender?.isSettled !== true) {
      this.#log.warn('the last endings could not be recorded; another start will end those calls');
      return;
    }
    try {
      const client = await connectRelay(this.#store);
      await retireInstance(client, this.#instance);
      await closeClient(client);
    } catch (error) {
      this.#log.warn(errorFields(error), 'the instance could not be retired; another will end it');
    }
  }
}

function listenable(config: Config, app: Parameters<typeof createServer>[0]): Server {
  try {
    return createServer(app);
  } catch (error) {
    if (config.tls) throw new ConfigError(`TLS_CERT and TLS_KEY are not usable together (${(error as NodeJS.ErrnoException).code}).`);
    throw error;
  }
}

function listen(http: Server, config: Config): Promise<number> {
  return new Promise((resolve, reject) => {
    http.once('error', (error: NodeJS.ErrnoException) => {
      const why = error.code === 'EADDRINUSE' ? `something listens on ${config.HOST}:${config.PORT} already` : error.code;
      const variable = error.code === 'EADDRINUSE' || error.code === 'EACCES' ? 'PORT' : 'HOST';
      reject(new ConfigError(`${variable} is not usable: ${why}.`));
    });
    http.listen({ port: config.PORT, host: config.HOST, backlog: LISTEN_BACKLOG }, () => {
      resolve((http.address() as AddressInfo).port);
    });
  });
}

/** The address that a person can paste when the server listens on all of them. */
function visibleHost(host: string): string {
  if (host === '0.0.0.0' || host === '::') return 'localhost';
  return host.includes(':') ? `[${host}]` : host;
}

/** Resolves when nothing runs any more, at the latest when the time for draining is over. */
async function drained(relay: Relay): Promise<void> {
  const deadline = performance.now() + DRAIN_MS;
  while (relay.running.size > 0 && performance.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 20));
  for (const delivery of [...relay.running]) delivery.fail('shutting_down', 'shed');
}
