import type { WorkloadEvent } from '#db/events/subjects.ts';
import type { WorkloadTerms } from '#db/events/identity/workload-events.ts';
import type { Stored } from '#db/fold/stored.ts';

/** A rule by which machines exchange tokens of their platform for short-lived keys. */
export type Workload = {
  name: string;
  account: string;
  /** The key that all its short-lived keys stand for: it has their limits and their usage. */
  key: string;
  terms: WorkloadTerms;
  state: 'active' | 'removed';
  /** The version that its stream has reached; the next event takes `version + 1`. */
  version: number;
};

/** The workload after the next event of its stream; undefined where it was never configured. */
export function evolveWorkload(
  workload: Workload | undefined,
  { event, version }: Stored<WorkloadEvent>,
): Workload | undefined {
  switch (event.type) {
    case 'workload.configured': {
      const { workload: name, account, key, terms } = event;
      return { name, account, key, terms, state: 'active', version };
    }
    case 'workload.removed':
      return workload && { ...workload, state: 'removed', version };
  }
}
