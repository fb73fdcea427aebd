import type { ManagementKeyEvent } from '#db/events/subjects.ts';
import { evolveManagementKey, type ManagementKey } from '#db/fold/management-key.ts';
import type { Stored } from '#db/fold/stored.ts';

/** Management keys in memory, in the order in which they were created. */
export class ManagementKeys {
  readonly #keys = new Map<string, ManagementKey>();

  apply(stored: Stored<ManagementKeyEvent>): void {
    const { management_key: id } = stored.event;
    const key = evolveManagementKey(this.#keys.get(id), stored);
    if (key) this.#keys.set(id, key);
  }

  get(id: string): ManagementKey | undefined {
    return this.#keys.get(id);
  }

  get all(): Iterable<ManagementKey> {
    return this.#keys.values();
  }
}
