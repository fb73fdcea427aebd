import type { WorkloadEvent } from '#db/events/subjects.ts';
import type { Stored } from '#db/fold/stored.ts';
import { evolveWorkload, type Workload } from '#db/fold/workload.ts';

/** Workloads in memory, in the order in which they were first configured. */
export class Workloads {
  readonly #workloads = new Map<string, Workload>();

  apply(stored: Stored<WorkloadEvent>): void {
    const { workload: name } = stored.event;
    const workload = evolveWorkload(this.#workloads.get(name), stored);
    if (workload) this.#workloads.set(name, workload);
  }

  /** An active workload, by its name. */
  get(name: string): Workload | undefined {
    const workload = this.#workloads.get(name);
    return workload?.state === 'active' ? workload : undefined;
  }

  /** The version that the stream of a workload has reached, also of a removed one. */
  versionOf(name: string): number {
    return this.#workloads.get(name)?.version ?? 0;
  }

  get active(): Workload[] {
    return [...this.#workloads.values()].filter(({ state }) => state === 'active');
  }
}
