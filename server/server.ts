import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { closeClient, type Store } from '#db/connect.ts';
import { type Follower, follow } from '#db/log/follow.ts';
import { migrate } from '#db/migrate.ts';
import { createServer } from '#server/app.ts';
import { DRAIN_MS, LISTEN_BACKLOG } from '#server/bounds.ts';
import { type Config, ConfigError } from '#server/config.ts';
import { withControl } from '#server/control.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { startDemoUpstream } from '#server/demo-upstream.ts';
import { CompletionEstimates } from '#server/limits/estimate.ts';
import { keepPartitions, makePartitions, PARTITION_CHECK_MS } from '#server/partitions.ts';
import { loadPepper } from '#server/pepper.ts';
import { ReadModel } from '#server/read-model.ts';
import { RefusalLog } from '#server/refusal-log.ts';
import type { Relay } from '#server/relay/relay.ts';
import { Deadlines } from '#server/relay/deadlines.ts';
import { ModelTable } from '#server/relay/dispatch.ts';
import { ModelList } from '#server/relay/model-list.ts';
import { openUpstream } from '#server/relay/upstream.ts';
import { endWithdrawn } from '#server/relay/withdraw.ts';
import { SeatKeeper } from '#server/seat.ts';
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

  const keeper = new SeatKeeper(store, readModel, log);
  const relay: Relay = {
    readModel,
    pepper,
    life: keeper.life,
    seat: await keeper.take(),
    refusals: new RefusalLog((event) => relay.seat.appender.note(event)),
    estimates: new CompletionEstimates(),
    models,
    deadlines: new Deadlines(),
    timeouts: {
      firstByteMs: config.UPSTREAM_FIRST_BYTE_TIMEOUT_MS,
      idleMs: config.UPSTREAM_IDLE_TIMEOUT_MS,
      totalMs: config.UPSTREAM_TOTAL_TIMEOUT_MS,
    },
    trustedProxies: config.trustedProxies,
    maxBodyBytes: config.MAX_BODY_MB * 1024 * 1024,
    overlapped: config.ACCOUNTING === 'overlapped',
    draining: false,
    running: new Set(),
  };
  keeper.onLost = async () => {
    // Others have ended our requests already, so nothing more of them may reach a client.
    for (const call of [...relay.running]) call.fail('store_unavailable', 'shed');
    relay.seat = await keeper.take();
  };
  readModel.onChange((accounts) => endWithdrawn(relay, accounts));

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
      relay.refusals.flush();
      await keeper.leave();
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
  for (const call of [...relay.running]) call.fail('shutting_down', 'shed');
}
