import type { Server } from 'node:http';
import { closeClient, patient, type Store } from '#db/postgres/connect.ts';
import { publicId } from '#db/ids.ts';
import { type Follower, follow } from '#db/log/follow.ts';
import { UnreadableEventError } from '#db/log/read.ts';
import { keepPartitions, PARTITIONS_CHECK_MS, PARTITIONS_TIMEOUT_MS } from '#db/log/partitions.ts';
import type { Sample } from '#db/telemetry/definition.ts';
import { connectRelay, openStore } from '#db/postgres/store.ts';
import { masterKeyFile } from '#db/secrets/master-key.ts';
import { parseVerifierKey } from '#db/tlog/note.ts';
import { publishDirectory } from '#db/tlog/publish-directory.ts';
import { createServer } from '#server/http/app.ts';
import { listen, requireFreeAddress } from '#server/process/listen.ts';
import { type Config, ConfigError } from '#server/process/config.ts';
import { drain, lameDuck, type StopOptions } from '#server/process/drain.ts';
import { ControlWriter } from '#server/control/control-writer.ts';
import { ReconcileTasks } from '#server/dashboard/reconcile/tasks.ts';
import { AuditChecks } from '#server/dashboard/audit/checks.ts';
import { Attribution } from '#server/attribution/attribution.ts';
import { Backtests } from '#server/dashboard/backtests/backtests.ts';
import { AuditReader } from '#server/dashboard/audit/reader.ts';
import { IDEMPOTENCY_CHANNEL } from '#db/idempotency/keys.ts';
import { Idempotency } from '#server/idempotency/idempotency.ts';
import { Feed } from '#server/feed/feed.ts';
import type { FindSession } from '#server/sign-in/signed-in.ts';
import { Live } from '#server/feed/upgrade.ts';
import { ReadStore } from '#server/read/store.ts';
import { Watch, WATCHED_CHANNEL } from '#server/feed/watch.ts';
import { startDemoUpstream } from '#server/upstreams/demo-upstream.ts';
import { OpenReplies } from '#server/http/open-replies.ts';
import { storeCosignatures, LogProofs } from '#server/http/log-proofs.ts';
import { CountLimiter } from '#server/counting/count-limiter.ts';
import { CallHistory } from '#server/limits/call-history.ts';
import { loadPepper } from '#server/secrets/pepper.ts';
import { type FirstKey, offerFirstKey } from '#server/process/first-key.ts';
import { prepareStore } from '#server/process/prepare-store.ts';
import { ReadModel } from '#server/read-model/read-model.ts';
import { RequestLog } from '#server/diagnostics/request-log.ts';
import { RejectionLog } from '#server/instance/rejection-log.ts';
import { Deadlines } from '#server/relay/deadlines.ts';
import { Registry } from '#db/registry.ts';
import { ProgressReport } from '#server/instance/call-progress.ts';
import { ModelList } from '#server/models/model-list.ts';
import { OpenCalls } from '#server/limits/open-calls.ts';
import type { Relay } from '#server/relay/relay.ts';
import { SecretUse } from '#server/secrets/secret-use.ts';
import type { ServerTelemetry } from '#server/telemetry/server-telemetry.ts';
import { VERSION } from '#server/process/version.ts';
import { endUnauthorizedCalls } from '#server/relay/end-unauthorized.ts';
import { keepLostEvents } from '#server/instance/lost-events.ts';
import { ServerInstance } from '#server/instance/server-instance.ts';
import { reportSecretUse } from '#server/secrets/secret-report.ts';
import { openSignInStore } from '#server/sign-in/store.ts';
import { ownOrigin } from '#server/sign-in/origin.ts';
import { offerSetup } from '#server/sign-in/setup.ts';
import { BatchPoller } from '#server/batches/batch-poller.ts';
import { BatchStore } from '#server/batches/batch-store.ts';
import { BackgroundPoller } from '#server/stored/background-poller.ts';
import { BackgroundStore } from '#server/stored/background-store.ts';
import { RouteBack } from '#server/stored/route-back.ts';
import { ResponsesSockets } from '#server/websocket/responses-socket.ts';
import { guardedConnector, reportingConnector } from '#server/upstreams/connect.ts';
import { CredentialStore } from '#server/upstreams/credential-store.ts';
import { definitionsOf } from '#server/upstreams/definitions.ts';
import { definitionOf } from '#server/upstreams/environment.ts';
import { startHealthProbes } from '#server/upstreams/health-probe.ts';
import { Upstreams } from '#server/upstreams/upstreams.ts';
import type { Logger } from '#db/diagnostics/logger.ts';
import { errorFields } from '#db/diagnostics/error-fields.ts';

/** A running server. */
export type Served = {
  /** What clients set as their base URL. */
  baseUrl: string;
  /** The upstreams with the models each serves, a line each. */
  models: string[];
  /** The metrics of the process; null: they are off, or its children have their own. */
  scrape: (() => Sample[]) | null;
  /** Drains running calls, and closes everything in order except the store. */
  stop(options?: StopOptions): Promise<void>;
};

/**
 * `firstKey` is set on the first start, else null; `setupLink` is set while there is no administrator.
 * `stop` closes the store too.
 */
export type RunningServer = Served & {
  firstKey: FirstKey | null;
  setupLink: string | null;
  /** The port of `/metrics`; null: metrics are off. */
  metricsPort: number | null;
};

/**
 * Runs a complete server in this process: opens the store, prepares it, serves.
 * @throws {ConfigError | StoreError} with one line for the operator.
 */
export async function startServer(config: Config, log: Logger): Promise<RunningServer> {
  await requireFreeAddress(config);
  await using opening = new AsyncDisposableStack();
  const { store, close } = await openStore(config, (line) => log.info(line));
  opening.defer(close);
  await prepareStore(store, config);
  const { stop, ...served } = await serve(config, log, store);
  opening.defer(() => stop());
  const { baseUrl, scrape } = served;
  const endpoint =
    scrape &&
    (await (await import('#server/telemetry/open-endpoint.ts')).openMetricsEndpoint(config, store, scrape));
  opening.defer(() => endpoint?.close());
  const firstKey = await offerFirstKey(store, config, true);
  const setup = await offerSetup(store, config, { origin: new URL(baseUrl).origin, isShown: true }, log);
  opening.move();
  return {
    ...served,
    metricsPort: endpoint?.port ?? null,
    firstKey: firstKey === 'unplaced' ? null : firstKey,
    setupLink: setup?.link ?? null,
    stop: (options) =>
      stop(options)
        .then(() => endpoint?.close())
        .then(close),
  };
}

/**
 * Composes a server on an open and prepared store: log, read model, upstreams, HTTP.
 * @param onInstance called with the number of each instance that the server registers.
 * @throws {ConfigError | StoreError} with one line for the operator.
 */
export async function serve(
  config: Config,
  log: Logger,
  store: Store,
  onInstance?: (instance: number) => void,
): Promise<Served> {
  // Closed in reverse order: by `stop`, or here if a later step fails.
  await using opening = new AsyncDisposableStack();
  const setup = await connectRelay(patient(store));
  const pepper = await loadPepper(setup, config);
  await closeClient(setup);

  const readModel = new ReadModel();
  const watch = new Watch(publicId());
  const nowMs = (): number => readModel.nowMs();
  const attribution = new Attribution(store.config('relay'), masterKeyFile(config), nowMs, log);
  opening.defer(() => attribution.close());
  const idempotency = new Idempotency(
    store.config('relay'),
    (account) => attribution.keyOf(account),
    (error) => log.warn(errorFields(error), 'recording the end of an idempotency key failed; retrying'),
  );
  opening.defer(() => idempotency.close());
  const follower = await followControl({ store, readModel, attribution, idempotency, watch, log });
  opening.defer(() => follower.close());

  const demo = await startDemoUpstream();
  opening.defer(() => demo.close());
  const { directory } = readModel;
  const requestLog = new RequestLog(log);
  const upstreams = new Upstreams(
    directory,
    ({ network }) =>
      reportingConnector(
        guardedConnector({ network, timeoutMs: config.UPSTREAM_CONNECT_TIMEOUT_MS }),
        (host, error) => requestLog.connectionFailed(host, error),
      ),
    (subject, change) => requestLog.circuitChanged(subject, change),
  );
  opening.defer(() => upstreams.close());
  const credentials = new CredentialStore({ store, directory, file: masterKeyFile(config), log });
  const configured = [...config.upstreams, demo.config].map(definitionOf);
  const openUpstreams = (): void =>
    upstreams.set(definitionsOf(directory.upstreams, credentials, configured));
  opening.defer(() => credentials.close());
  await credentials.start();
  credentials.onChange(openUpstreams);
  directory.onChange(openUpstreams);
  openUpstreams();
  opening.defer(startHealthProbes(upstreams));

  const telemetry = await openTelemetry(config, () => relay, log);
  opening.defer(() => telemetry?.close());
  const instance = new ServerInstance(store, readModel, log, onInstance, telemetry ?? undefined);
  instance.onLost = (lost) => void keepLostEvents(store, publishDirectory(config), lost, log);
  const routeBack = new RouteBack(store.config('relay'), (error) =>
    log.warn(errorFields(error), 'storing the places of responses failed; retrying'),
  );
  opening.defer(() => routeBack.close());
  const backgroundStore = new BackgroundStore(
    store.config('relay'),
    (error) => log.warn(errorFields(error), 'recording a background response failed'),
    telemetry,
  );
  opening.defer(() => backgroundStore.close());
  const batchStore = new BatchStore(store.config('relay'), telemetry);
  opening.defer(() => batchStore.close());
  const buffers = {
    process: mebibytes(config.MAX_BUFFERED_MB),
    account: mebibytes(config.MAX_BUFFERED_MB_PER_ACCOUNT),
    key: mebibytes(config.MAX_BUFFERED_MB_PER_KEY),
  };
  const relay: Relay = {
    readModel,
    pepper,
    fencing: instance.guard,
    instance: await instance.register(),
    secretUse: new SecretUse(),
    attribution,
    rejections: new RejectionLog((event) => relay.instance.appender.note(event)),
    requestLog,
    observer: telemetry,
    history: new CallHistory(),
    counts: new CountLimiter(),
    upstreams,
    deadlines: new Deadlines(),
    timeouts: {
      firstByteMs: config.UPSTREAM_FIRST_BYTE_TIMEOUT_MS,
      idleMs: config.UPSTREAM_IDLE_TIMEOUT_MS,
      totalMs: config.UPSTREAM_TOTAL_TIMEOUT_MS,
    },
    trustedProxies: config.trustedProxies,
    maxBodyBytes: mebibytes(config.MAX_BODY_MB),
    openCalls: new OpenCalls(buffers),
    routeBack,
    backgroundStore,
    batchStore,
    idempotency,
    overlapped: config.ACCOUNTING === 'overlapped',
    phase: 'serving',
    running: new Registry(),
  };
  opening.defer(async () => {
    relay.rejections.flush();
    await instance.close();
  });
  const poller = new BackgroundPoller(relay, log);
  opening.defer(() => poller.close());
  const batchPoller = new BatchPoller(relay, log);
  opening.defer(() => batchPoller.close());
  const progress = new ProgressReport(relay.running);
  instance.progress = () => progress.read();
  // A peer has settled the requests of this instance already.
  instance.onFenced = () => {
    for (const call of relay.running.members()) call.fail('store_unavailable', 'service_unavailable');
  };
  instance.onReplaced = (replacement) => {
    relay.instance = replacement;
    idempotency.forgetFenced(replacement.appender.instance);
  };
  readModel.onChange((accounts) => endUnauthorizedCalls(relay, accounts));
  // Behind the calls, so that each ends with its own error before its connection does.
  const sockets = new ResponsesSockets(relay, buffers);

  const reads = new ReadStore(store.config('relay'));
  opening.defer(() => reads.close());
  const proofs = new LogProofs(reads, config.WITNESSES.map(parseVerifierKey), (of, signatures) =>
    storeCosignatures(store, of, signatures),
  );
  const feed = new Feed(store, relay, watch, log);
  const modelList = new ModelList(upstreams);
  const control = new ControlWriter(store, log);
  opening.defer(() => control.close());
  const audit = new AuditReader(store);
  opening.defer(() => audit.close());
  const checks = new AuditChecks(audit, log);
  const reconcileTasks = new ReconcileTasks(store, config, log);
  opening.defer(() => reconcileTasks.close());
  const backtests = new Backtests(store, audit, log);
  opening.defer(() => backtests.close());
  const secrets = reportSecretUse(relay.secretUse, store, nowMs, log);
  opening.defer(() => secrets.close());
  let port = config.PORT;
  const origin = (): string => ownOrigin(config, port);
  const signIn = openSignInStore(store, config, readModel, pepper, log);
  opening.defer(() => signIn.close());
  const find: FindSession = (request, isUse) => signIn.sessions.find(request, isUse);
  const live = new Live(relay, feed, { find, log, publicOrigin: config.PUBLIC_URL });
  const dashboard = {
    relay,
    config,
    reads,
    control,
    audit,
    checks,
    reconcileTasks,
    backtests,
    credentials,
    modelList,
    find,
    signIn,
    log,
    origin,
    viewers: () => feed.viewers,
  };
  const replies = new OpenReplies();
  const { tls } = config;
  const http = listenable(config, {
    ...{ relay, modelList, reads, proofs, live, sockets, dashboard, log, replies, tls },
  });
  port = await listen(http, config);
  const partitions = keepPartitions(
    () => connectRelay(store, PARTITIONS_TIMEOUT_MS),
    PARTITIONS_CHECK_MS,
    (error) => log.error(errorFields(error), 'creating log partitions failed; retrying'),
  );
  opening.defer(() => partitions.close());
  const closing = opening.move();
  const draining = { http, relay, replies, sockets, log };
  return {
    baseUrl: `${origin()}/v1`,
    scrape: telemetry?.scrape ?? null,
    models: upstreams.all.map(({ name, terms }) => `${name} (${terms.models.join(', ')})`),
    async stop(options = {}) {
      await lameDuck(draining, options);
      await Promise.all([drain(draining, options), feed.close()]);
      await closing.disposeAsync();
    },
  };
}

/** The modules of metrics and traces are loaded only where one of them is on; null: both are off. */
async function openTelemetry(
  config: Config,
  relay: () => Relay,
  log: Logger,
): Promise<ServerTelemetry | null> {
  if (config.METRICS_PORT === undefined && config.traces === null) return null;
  const module = await import('#server/telemetry/server-telemetry.ts');
  return new module.ServerTelemetry(config, VERSION, relay, log);
}

/** Starts to follow accounts and keys; resolves when the log has been read to its head once. */
async function followControl({
  store,
  readModel,
  attribution,
  idempotency,
  watch,
  log,
}: {
  store: Store;
  readModel: ReadModel;
  attribution: Attribution;
  idempotency: Idempotency;
  watch: Watch;
  log: Logger;
}): Promise<Follower> {
  const current = Promise.withResolvers<void>();
  const follower = follow({
    config: store.config('relay'),
    scope: 'control',
    after: 0,
    onRows(rows) {
      readModel.apply(rows);
      attribution.apply(rows);
      for (const row of rows)
        if (row instanceof UnreadableEventError && !row.maySkip)
          log.warn(
            { position: row.position, type: row.row?.type, stream: row.row?.stream },
            'event of a newer version not applied; calls that depend on its subject get relay_outdated',
          );
    },
    channels: {
      [WATCHED_CHANNEL]: (payload) => watch.heard(payload),
      [IDEMPOTENCY_CHANNEL]: (payload) => idempotency.heard(payload),
    },
    onCurrent: (head) => {
      readModel.markCurrent(head);
      current.resolve();
    },
    onError: (error) => log.warn(errorFields(error), 'log follower disconnected; reconnecting'),
    pauseMs: 0,
  });
  await current.promise;
  return follower;
}

const mebibytes = (megabytes: number): number => Math.ceil(megabytes * 1024 * 1024);

function listenable(config: Config, app: Parameters<typeof createServer>[0]): Server {
  try {
    return createServer(app);
  } catch (error) {
    if (config.tls)
      throw new ConfigError(
        `TLS_CERT and TLS_KEY are not usable together (${(error as NodeJS.ErrnoException).code}).`,
      );
    throw error;
  }
}
