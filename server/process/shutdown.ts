import { PARENT_CHECK_MS, REPEATED_SIGNAL_MS } from '#server/process/bounds.ts';

/** What asks the process to stop: a signal, or the end of the npm that started it. */
export type StopRequest = 'SIGTERM' | 'SIGINT' | 'SIGHUP' | 'npm';

/**
 * What a request to stop leads to. `stop` begins the drain, `cut` ends the running calls at once, `wait`
 * repeats to the operator that the drain goes on, `ignore` does nothing.
 */
export type StopAction = 'stop' | 'cut' | 'wait' | 'ignore';

/**
 * Decides what each request to stop means. Only SIGINT and SIGTERM are deliberate: SIGHUP comes with a closed
 * terminal, and npm ends when its own signal comes first. One deliberate act can reach the process several
 * times within milliseconds (by its process group, by npm, which passes signals on, and by npm's end), so a
 * drain is cut short only by a second deliberate signal that comes REPEATED_SIGNAL_MS after the first one.
 */
export class StopRequests {
  #isStopping = false;
  #isCut = false;
  #deliberateMs: number | null = null;

  receive(request: StopRequest, nowMs: number): StopAction {
    const isFirst = !this.#isStopping;
    this.#isStopping = true;
    const firstMs = this.#deliberateMs;
    if (request === 'SIGINT' || request === 'SIGTERM') this.#deliberateMs ??= nowMs;
    if (isFirst) return 'stop';
    if (this.#isCut || request === 'SIGHUP' || request === 'npm') return 'ignore';
    if (firstMs === null) return 'wait';
    if (nowMs - firstMs < REPEATED_SIGNAL_MS) return 'ignore';
    this.#isCut = true;
    return 'cut';
  }
}

/** The stop that was asked for. */
export type Shutdown = {
  /** Aborted by the first request, which is its reason. */
  stop: AbortSignal;
  /** Aborted when the running calls are to be cut. */
  cut: AbortSignal;
};

/**
 * Listens for requests to stop from here on; none ends the process by itself any more.
 * @param say reports to the operator, a line each.
 */
export function listenForStop(say: (line: string) => void): Shutdown {
  const requests = new StopRequests();
  const stop = new AbortController();
  const cut = new AbortController();
  const receive = (request: StopRequest): void => {
    const name = request === 'npm' ? 'npm has ended' : `${request} received`;
    switch (requests.receive(request, performance.now())) {
      case 'stop':
        say(`${name}; waiting for running calls to end. Send SIGTERM or Ctrl-C again to cut them.`);
        return stop.abort(request);
      case 'wait':
        return say(`${name}; still waiting for running calls to end. Send it again to cut them.`);
      case 'cut':
        say(`${name} again; cutting the running calls.`);
        return cut.abort(request);
      case 'ignore':
    }
  };
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => receive(signal));
  watchNpm(() => receive('npm'));
  return { stop: stop.signal, cut: cut.signal };
}

/**
 * npm passes SIGTERM on to its shell, and not every shell passes it on to this process. A server started by
 * npm treats the loss of its parent as a request to stop, so that it isn't left running.
 */
function watchNpm(ended: () => void): void {
  if (process.env['npm_lifecycle_event'] === undefined) return;
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    ended();
  }, PARENT_CHECK_MS);
  timer.unref();
}

/** Resolves when the signal is aborted. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
