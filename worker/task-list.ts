import type { TaskList } from 'graphile-worker';
import type { Client } from 'pg';
import { RECOVERY_TIMEOUT_MS } from '#db/bounds.ts';
import type { WorkerConfig } from './config.ts';
import type { Place } from './place.ts';
import { recoverInstanceTask } from './tasks/recover-instance.ts';
import type { Logger } from './telemetry.ts';

/** What the tasks of one process have to work with. Each is handed only what it needs of it. */
export type Work = {
  config: WorkerConfig;
  log: Logger;
  /** The number under which this process appends. */
  place: Place;
  /** A connection of the task's own, as the worker; the task closes it. Time-outs are short unless one is given. */
  connect: (timeoutMs?: number) => Promise<Client>;
};

/** Every task by the name that its jobs have; `crontab.ts` says which of them the clock starts. */
export function taskList({ place, connect }: Work): TaskList {
  return {
    recover_instance: (payload) =>
      recoverInstanceTask(payload, {
        connect: () => connect(RECOVERY_TIMEOUT_MS),
        instance: () => place.instance,
        onRecovered: (dead, abandoned) => place.noteRecovered(dead, abandoned),
      }),
  };
}
