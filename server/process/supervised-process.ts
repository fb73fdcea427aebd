import type { ChildProcess } from 'node:child_process';
import { CHILD_RESTART_FIRST_MS, CHILD_RESTART_MAX_MS, CHILD_STABLE_MS } from '#server/process/bounds.ts';

/** A process that is restarted whenever it exits, until it is stopped. */
export type SupervisedProcess = {
  /** From here on the process may exit: that is neither reported nor followed by a restart. */
  release(): void;
  /** Asks the process to exit, unless it was asked before, and kills it after `graceMs`. */
  stop(graceMs: number): Promise<void>;
};

export type SupervisedProcessOptions = {
  start: () => ChildProcess;
  /** Asks the process to shut down. */
  ask: (child: ChildProcess) => void;
  /**
   * The process exited unexpectedly, and is restarted after this backoff. Reported CHILD_RESTART_FIRST_MS
   * after the exit: a signal that ends a process may reach its supervisor a moment later, which then stops
   * it anyway.
   */
  onEnd: (child: ChildProcess, restartMs: number) => void;
};

/**
 * Starts a process and restarts it when it exits. The backoff doubles while the process exits soon after
 * its start, so that a process which can't run costs little, and one that was killed is back at once.
 */
export function superviseProcess({ start, ask, onEnd }: SupervisedProcessOptions): SupervisedProcess {
  let child: ChildProcess | undefined;
  let gone: Promise<void> = Promise.resolve();
  let timer: NodeJS.Timeout | undefined;
  let isReleased = false;
  let isAsked = false;
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
      if (isReleased) return;
      if (performance.now() - startedMs >= CHILD_STABLE_MS) pauseMs = CHILD_RESTART_FIRST_MS;
      const restartMs = pauseMs;
      pauseMs = Math.min(pauseMs * 2, CHILD_RESTART_MAX_MS);
      timer = setTimeout(() => {
        timer = setTimeout(launch, restartMs - CHILD_RESTART_FIRST_MS);
        onEnd(launched, restartMs);
      }, CHILD_RESTART_FIRST_MS);
    }
  }
  launch();

  function release(): void {
    isReleased = true;
    clearTimeout(timer);
  }
  return {
    release,
    async stop(graceMs) {
      release();
      if (!child) return;
      if (!isAsked) ask(child);
      isAsked = true;
      const force = setTimeout(() => child?.kill('SIGKILL'), graceMs);
      await gone;
      clearTimeout(force);
    },
  };
}
