import { randomBytes } from 'node:crypto';
import { Client } from 'pg';
import type { Store } from '#db/postgres/connect.ts';
import { publicId } from '#db/ids.ts';
import { heartbeat, registerInstance, retireInstance } from '#db/instances/instance.ts';
import { appendControl, type ControlAppend } from '#db/log/append.ts';

const BATCH = 1000;
const KEYS_PER_ACCOUNT = 100;
const ACTOR = 'bench';

/**
 * Adds live keys to a log, as many as an installation in full use has, through the project's own
 * append. Nobody knows their secrets: they are there to be carried, looked up among, and indexed.
 */
export async function seedKeys(store: Store, count: number): Promise<void> {
  const client = new Client(store.config('relay'));
  await client.connect();
  try {
    const instance = await registerInstance(client, 'bench-seed');
    let batchNo = 0;
    let pending: ControlAppend[] = [];
    for (const append of keyEvents(count)) {
      pending.push(append);
      if (pending.length < BATCH) continue;
      await appendControl(client, instance, ++batchNo, pending);
      pending = [];
      // A server beside us would declare a silent instance dead in the middle of this.
      await heartbeat(client, instance, 0);
    }
    if (pending.length > 0) await appendControl(client, instance, ++batchNo, pending);
    await retireInstance(client, instance);
  } finally {
    await client.end();
  }
}

function* keyEvents(count: number): Generator<ControlAppend> {
  let account = '';
  for (let index = 0; index < count; index++) {
    if (index % KEYS_PER_ACCOUNT === 0) {
      account = publicId();
      yield {
        event: { type: 'account.registered', account, name: `bench ${index}`, actor: ACTOR },
        version: 1,
      };
    }
    const secret = { digest: randomBytes(32).toString('hex'), last4: 'zzzz' };
    const key = publicId();
    yield {
      event: { type: 'key.created', account, key, name: 'bench', ...secret, actor: ACTOR },
      version: 1,
    };
  }
}
