import type { ChildProcess } from 'node:child_process';
import { CHILD_RESTART_FIRST_MS, CHILD_RESTART_MAX_MS, CHILD_STABLE_MS } from '#server/process/bounds.ts';

/** A process beside or below this one that is started again whenever it ends, until it is stopped. */
export type SupervisedProcess = {
  /** Asks it to end, and ends it by force when it hasn't within `graceMs`. */
  stop(graceMs: number): Promise<void>;
  /** Ends it at once and for good. */
  kill(): void;
};

export type SupervisedProcessOptions = {
  start: () => ChildProcess;
  /** Asks it to end in good order. */
  ask: (child: ChildProcess) => void;
  /** It has ended unasked, and is started again after this pause. */
  onEnd: (child: ChildProcess, restartMs: number) => void;
};

/**
 * Starts a child and keeps it. The pause before the next start doubles as long as it dies young, so
 * that one which can't run costs little, and one that was killed is back at once.
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
    // A process that could not be started at all reports an error and no exit.
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
