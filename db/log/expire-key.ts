import type { ClientBase } from 'pg';
import type { EventOf } from '#db/events/events.ts';
import { evolveKey, type Key } from '#db/fold/key.ts';
import { appendControl, ConflictError } from '#db/log/append.ts';
import { readStream } from '#db/log/read.ts';
import { readClock } from '#db/schema/query.ts';

/**
 * Records in the log that a key has expired. Authentication does not depend on this event, because it
 * compares `expiresAt` with the clock; readers of the log see the end of a key at its place.
 */

/** The expiry event of a key; null if it is recorded already, the key was revoked, or it has not expired. */
export function expireKey(key: Key, now: Date): EventOf<'key.expired'> | null {
  if (key.revokedAt || key.expiredAt || key.expiresAt === null || key.expiresAt > now) return null;
  return { type: 'key.expired', account: key.account, key: key.id, actor: 'worker' };
}

/**
 * Reads a key's stream, decides, and appends with the version that was read; on a conflict it decides once
 * more.
 * @param writer under whose number it is appended, and the next of its batches.
 * @returns whether this call recorded the expiry.
 */
export async function recordExpiry(
  client: ClientBase,
  id: string,
  writer: { instance: number; nextBatchNo(): number },
): Promise<boolean> {
  for (let attempt = 1; ; attempt++) {
    const { key, now } = await readKey(client, id);
    const event = key && expireKey(key, now);
    if (!event) return false;
    try {
      await appendControl(client, writer.instance, writer.nextBatchNo(), [
        { event, version: key.version + 1 },
      ]);
      return true;
    } catch (error) {
      if (!(error instanceof ConflictError) || attempt === 2) throw error;
    }
  }
}

/** The key as the log has it, and the clock that decides its expiry. */
async function readKey(client: ClientBase, id: string): Promise<{ key: Key | undefined; now: Date }> {
  const events = await readStream(client, `key/${id}`);
  const key = events.reduce<Key | undefined>(evolveKey, undefined);
  return { key, now: await readClock(client) };
}
