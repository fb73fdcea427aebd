import type { ChildProcess } from 'node:child_process';
import cluster, { type Worker } from 'node:cluster';
import { RECOVERY_TIMEOUT_MS } from '#db/bounds.ts';
import { errorFields } from '#db/diagnostics/error-fields.ts';
import { requestRecovery } from '#db/instances/instance.ts';
import { attachStore, connectRelay } from '#db/postgres/store.ts';
import { closeClient, type Store, StoreError } from '#db/postgres/connect.ts';
import { CHILD_CUT_MS, CHILD_STOP_MS } from '#server/process/bounds.ts';
import { type Config, ConfigError } from '#server/process/config.ts';
import { passOnConnections } from '#server/process/connection-handover.ts';
import { type SupervisedProcess, superviseProcess } from '#server/process/supervised-process.ts';
import type { StopOptions } from '#server/process/drain.ts';
import type { Served } from '#server/process/server.ts';
import { aborted } from '#server/process/shutdown.ts';
import type { Scraped } from '#db/telemetry/scrape-channel.ts';
import type { Logger } from '#db/diagnostics/logger.ts';
import { exitProcess } from '#db/diagnostics/process-output.ts';

/**
 * Several server processes on one port. The *primary* opens and prepares the database, then only supervises
 * its children. Each *child* is a complete server with an instance of its own. The children share the port
 * and the database.
 *
 * The primary distributes connections round-robin (SCHED_RR). The kernel would give each connection to the
 * process that wakes first, and clients keep connections for hours: of 30 keep-alive connections to three
 * processes the busiest got 44 to 54 % on average and once all of them; round-robin it gets 33 to 38 %. The
 * cost is a message per connection, not per call. A frozen child gets at most one connection, and a
 * connection handed to a child that died is passed on to another.
 */

/** A message from a child to the primary. */
type Ready = Pick<Served, 'baseUrl' | 'models'>;
type ChildMessage = { ready: Ready } | { problem: string } | { instance: number } | Scraped;
/** A message from the primary to a child: drain, then exit; or cut the calls that still run. */
type PrimaryMessage = { stop: { lameDuckMs: number } } | 'cut';

/** Whether this process is a child. */
export const { isWorker: isChild } = cluster;

/**
 * Runs `DAYBOOK_INSTANCES` children and resolves when all of them accept calls. A child that exits later is
 * replaced. Its instance is declared dead at once, where peers would wait for its heartbeats, and its open
 * requests and its part of the limits are recovered like those of any dead instance.
 * @param stop ends the start when it is aborted; from then on no child is replaced.
 * @param onChild called with each child that is started, with the index of its place among them.
 * @throws {ConfigError} with the message of the first child that could not start.
 */
export async function serveByChildren(
  config: Config,
  log: Logger,
  stop: AbortSignal,
  store: Store,
  onChild: (index: number, child: ChildProcess) => void = () => {},
): Promise<Served> {
  cluster.schedulingPolicy = cluster.SCHED_RR;
  const failed = Promise.withResolvers<never>();
  const begun: Promise<Ready>[] = [];
  const children: (SupervisedProcess & { send(message: PrimaryMessage): void })[] = [];
  /** The shared port, once it is known, and the children that listen on it. */
  let port: string | null = null;
  const listening = new Set<Worker>();
  let asked = String(config.PORT);
  let lameDuckMs = 0;

  function startChild(index: number): void {
    const ready = Promise.withResolvers<Ready>();
    begun.push(ready.promise);
    let isBegun = false;
    let problem: string | null = null;
    let instance: number | null = null;
    let current: Worker | null = null;
    const send = (message: PrimaryMessage): void => {
      if (current?.isConnected() === true) current.send(message);
    };
    const start = (): Worker['process'] => {
      // With PORT=0 the first child picks a free port, which stays reserved while a child listens on it. When
      // no child is left, the port is requested by its number, because clients know it.
      if (port !== null && listening.size === 0) asked = port;
      const child = cluster.fork({ PORT: asked });
      current = child;
      onChild(index, child.process);
      passOnConnections(child, () => listening.size > 0);
      child.on('message', (message: ChildMessage) => {
        // Its scraper listens for it.
        if ('scraped' in message) return;
        if ('problem' in message) {
          problem = message.problem;
          return;
        }
        if ('instance' in message) {
          instance = message.instance;
          return;
        }
        const own = new URL(message.ready.baseUrl).port;
        port ??= own;
        // It started too late to share the port, and clients don't know another one.
        if (own !== port) return void child.process.kill('SIGKILL');
        listening.add(child);
        isBegun = true;
        ready.resolve(message.ready);
      });
      child.on('exit', () => listening.delete(child));
      return child.process;
    };
    const onEnd = ({ pid, exitCode, signalCode }: Worker['process'], restartMs: number): void => {
      if (!isBegun)
        failed.reject(
          new ConfigError(problem ?? `A server process could not start (${exitCode ?? signalCode}).`),
        );
      log.error(
        { pid, code: exitCode, signal: signalCode, restart_ms: restartMs },
        'server process exited; restarting',
      );
      if (instance !== null) void declareDead(instance);
      instance = null;
    };
    children.push({ ...superviseProcess({ start, ask: () => send({ stop: { lameDuckMs } }), onEnd }), send });
  }

  /** Where this fails, the peers find out by the missing heartbeats. */
  async function declareDead(instance: number): Promise<void> {
    try {
      const client = await connectRelay(store, RECOVERY_TIMEOUT_MS);
      try {
        await requestRecovery(client, instance);
      } finally {
        await closeClient(client);
      }
      log.warn({ instance }, 'instance of an exited server process fenced');
    } catch (error) {
      log.warn(
        { instance, ...errorFields(error) },
        'fencing an exited server process failed; its peers will',
      );
    }
  }

  async function stopAll({ lameDuckMs: forMs = 0, cut }: StopOptions = {}): Promise<void> {
    lameDuckMs = forMs;
    const stopped = Promise.all(children.map((child) => child.stop(forMs + CHILD_STOP_MS)));
    if (cut)
      void aborted(cut).then(() => {
        for (const child of children) {
          child.send('cut');
          void child.stop(CHILD_CUT_MS);
        }
      });
    await stopped;
  }

  void aborted(stop).then(() => {
    for (const child of children) child.release();
    failed.reject(new Error('the start was interrupted'));
  });
  for (let count = 0; count < config.DAYBOOK_INSTANCES; count++) startChild(count);
  try {
    const [first] = await Promise.race([Promise.all(begun), failed.promise]);
    return {
      ...(first as Ready),
      scrape: null,
      stop: stopAll,
    };
  } catch (error) {
    await stopAll({ cut: AbortSignal.abort() });
    throw error;
  }
}

/** Runs a child: serves until the primary asks it to stop, or exits. */
export async function serveAsChild(config: Config, log: Logger): Promise<void> {
  let served: Promise<Served> | null = null;
  let isServing = false;
  let stopping = false;
  const cut = new AbortController();
  const stop = (lameDuckMs: number): void => {
    if (stopping) return;
    stopping = true;
    const options = { lameDuckMs, cut: cut.signal };
    (served ? served.then((each) => each.stop(options)) : Promise.resolve()).then(
      () => exitProcess(0),
      () => exitProcess(1),
    );
  };
  const self = cluster.worker as Worker;
  self.on('disconnect', () => {
    // Node would exit at once and interrupt the running calls.
    self.exitedAfterDisconnect = true;
    // Only the primary could let it listen, so its start would never end. Nothing runs yet.
    if (isServing) stop(0);
    else void exitProcess(1);
  });
  process.on('message', (message: PrimaryMessage) => {
    if (message === 'cut') cut.abort();
    else if (typeof message === 'object' && 'stop' in message) stop(message.stop.lameDuckMs);
  });
  const send = (message: ChildMessage): Promise<void> =>
    new Promise((resolve) => process.send?.(message, undefined, undefined, () => resolve()));
  try {
    const { serve } = await import('#server/process/server.ts');
    const reportInstance = (instance: number): void => void send({ instance });
    served = serve(config, log, await attachStore(config), reportInstance);
    const { baseUrl, models, scrape } = await served;
    if (scrape) (await import('#db/telemetry/scrape-channel.ts')).answerScrapes(scrape);
    isServing = true;
    await send({ ready: { baseUrl, models } });
  } catch (error) {
    if (!(error instanceof ConfigError || error instanceof StoreError)) throw error;
    await send({ problem: error.message });
    return exitProcess(1);
  }
}
