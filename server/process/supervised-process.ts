import type { ChildProcess } from 'node:child_process';
import { CHILD_RESTART_FIRST_MS, CHILD_RESTART_MAX_MS, CHILD_STABLE_MS } from '#server/process/bounds.ts';

/** A process that is restarted whenever it exits, until it is stopped. */
export type SupervisedProcess = {
  /** Asks the process to exit, and kills it after `graceMs`. */
  stop(graceMs: number): Promise<void>;
  /** Kills the process without a restart. */
  kill(): void;
};

export type SupervisedProcessOptions = {
  start: () => ChildProcess;
  /** Asks the process to shut down. */
  ask: (child: ChildProcess) => void;
  /** The process exited unexpectedly, and is restarted after this backoff. */
  onEnd: (child: ChildProcess, restartMs: number) => void;
};

/**
 * Starts a process and restarts it when it exits. The backoff doubles while the process exits soon after its
 * start, so that a process which can't run costs little, and one that was killed is back at once.
 */
export function superviseProcess({ start, ask, onEnd }: SupervisedProcessOptions): SupervisedProcess {
  let child: ChildProcess | undefined;
  let gone: Promise<void> = Promise.resolve();
  let timer: NodeJS.Timeout | undefined;
  let stopping = false;
  let pauseMs = CHILD_RESTART_FIRST_MS;

  function launch(): void {
    const startedMs = performance.now();
    const launched = start();
    child = launched;
    const ended = Promise.withResolvers<void>();
    gone = ended.promise;
    // A process that could not be spawned emits an error and no exit.
    launched.once('error', () => over());
    launched.once('exit', () => over());
    let isOver = false;
    function over(): void {
      if (isOver) return;
      isOver = true;
      child = undefined;
      ended.resolve();
      if (stopping) return;
      if (performance.now() - startedMs >= CHILD_STABLE_MS) pauseMs = CHILD_RESTART_FIRST_MS;
      timer = setTimeout(launch, pauseMs);
      onEnd(launched, pauseMs);
      pauseMs = Math.min(pauseMs * 2, CHILD_RESTART_MAX_MS);
    }
  }
  launch();

  return {
    async stop(graceMs) {
      stopping = true;
      clearTimeout(timer);
      if (!child) return;
      ask(child);
      const force = setTimeout(() => child?.kill('SIGKILL'), graceMs);
      await gone;
      clearTimeout(force);
    },
    kill() {
      stopping = true;
      clearTimeout(timer);
      child?.kill('SIGKILL');
    },
  };
}
