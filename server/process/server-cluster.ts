import cluster, { type Worker } from 'node:cluster';
import { attachStore } from '#db/postgres/store.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { CHILD_STOP_MS } from '#server/process/bounds.ts';
import { type Config, ConfigError } from '#server/process/config.ts';
import { passOnConnections } from '#server/process/connection-handover.ts';
import { type SupervisedProcess, superviseProcess } from '#server/process/supervised-process.ts';
import type { Served } from '#server/process/server.ts';
import type { Logger } from '#server/process/logger.ts';

/**
 * Several server processes on one port. The *primary* has opened and prepared the store, and does
 * nothing else than keep its children running; each *child* is a whole server with an instance
 * number of its own. They share the port and Postgres, and nothing else.
 *
 * Connections are handed out in turn by the primary (SCHED_RR). Left to the kernel they go to
 * whoever wakes first, and clients keep theirs for hours: of 30 keep-alive connections to three
 * processes the busiest got 44 to 54 % on average and once all of them; in turn it gets 33 to 38 %.
 * What it costs is a message per connection, not per call. A frozen child is handed one at most, and
 * one that a child took with it into death is passed on.
 */

/** What a child tells the primary. */
type Ready = Pick<Served, 'baseUrl' | 'models'>;
type ChildMessage = { ready: Ready } | { problem: string };
/** What the primary tells a child: no new calls, and an end when the running ones have. */
const STOP = 'stop';

/** Whether this process is such a child. */
export const { isWorker: isChild } = cluster;

/**
 * Runs `DAYBOOK_INSTANCES` children and resolves when all of them take calls. One that ends later
 * is replaced, and what it left open is recovered like that of any dead instance.
 * @throws {ConfigError} with what the first child that could not start has said.
 */
export async function serveByChildren(config: Config, log: Logger): Promise<Served> {
  cluster.schedulingPolicy = cluster.SCHED_RR;
  const failed = Promise.withResolvers<never>();
  const begun: Promise<Ready>[] = [];
  const children: SupervisedProcess[] = [];
  /** The port that all of them share, once it is known, and who listens on it. */
  let port: string | null = null;
  const listening = new Set<Worker>();
  let asked = String(config.PORT);

  function keep(): void {
    const ready = Promise.withResolvers<Ready>();
    begun.push(ready.promise);
    let isBegun = false;
    let problem: string | null = null;
    const start = (): Worker['process'] => {
      // A free port that was taken once stays ours as long as anybody listens on it. When all have
      // gone it is asked for by its number, because clients know it.
      if (port !== null && listening.size === 0) asked = port;
      const child = cluster.fork({ PORT: asked });
      passOnConnections(child, () => listening.size > 0);
      child.on('message', (told: ChildMessage) => {
        if ('problem' in told) {
          problem = told.problem;
          return;
        }
        const own = new URL(told.ready.baseUrl).port;
        port ??= own;
        // It came too late to share the port, and is of no use on another.
        if (own !== port) return void child.process.kill('SIGKILL');
        listening.add(child);
        isBegun = true;
        ready.resolve(told.ready);
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
    };
    children.push(
      superviseProcess({ start, ask: (child) => void (child.connected && child.send(STOP)), onEnd }),
    );
  }

  const kill = (): void => {
    for (const child of children) child.kill();
  };
  for (let count = 0; count < config.DAYBOOK_INSTANCES; count++) keep();
  try {
    const [first] = await Promise.race([Promise.all(begun), failed.promise]);
    return {
      ...(first as Ready),
      async stop() {
        await Promise.all(children.map((child) => child.stop(CHILD_STOP_MS)));
      },
      kill,
    };
  } catch (error) {
    kill();
    throw error;
  }
}

/** The life of a child: serves until the primary says stop, or is gone. */
export async function serveAsChild(config: Config, log: Logger): Promise<void> {
  // A terminal's Ctrl-C and a service manager reach all processes at once; the primary decides.
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => {});
  let served: Served | null = null;
  let stopping = false;
  const stop = (): void => {
    if (stopping) return;
    stopping = true;
    (served ? served.stop() : Promise.resolve()).then(
      () => process.exit(0),
      () => process.exit(1),
    );
  };
  const self = cluster.worker as Worker;
  self.on('disconnect', () => {
    // Node would end this process on the spot, and its running calls with it.
    self.exitedAfterDisconnect = true;
    stop();
  });
  process.on('message', (told) => {
    if (told === STOP) stop();
  });
  const tell = (told: ChildMessage): Promise<void> =>
    new Promise((resolve) => process.send?.(told, undefined, undefined, () => resolve()));
  try {
    const { serve } = await import('#server/process/server.ts');
    served = await serve(config, log, await attachStore(config));
  } catch (error) {
    if (!(error instanceof ConfigError || error instanceof StoreError)) throw error;
    await tell({ problem: error.message });
    process.exit(1);
  }
  const { baseUrl, models } = served;
  await tell({ ready: { baseUrl, models } });
}
