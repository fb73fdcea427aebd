import { getHeapSpaceStatistics } from 'node:v8';
import { Client } from 'pg';
import { Registry } from '#db/registry.ts';
import { StoreClient } from '#db/postgres/client.ts';

/**
 * Prints by how many bytes the old generation grows for each of many calls whose garbage is collected by
 * minor collections alone, as in a server under load. See `kept-bytes.ts`.
 */

const CALLS = 500;
const COLLECT_EVERY = 25;
/** An object survives two minor collections before it is moved to the old generation. */
const COLLECTIONS_TO_AGE = 3;
const OPEN = 10;

const collect = (globalThis as unknown as { gc(options: { type: 'minor' | 'major' }): void }).gc;

function age(): void {
  for (let n = 0; n < COLLECTIONS_TO_AGE; n++) collect({ type: 'minor' });
}

function oldGenerationBytes(): number {
  const old = getHeapSpaceStatistics().find(({ space_name }) => space_name === 'old_space');
  return old?.space_used_size ?? 0;
}

/** Some 10 KB, as a call references them. */
const makeCall = (): object => Array.from({ length: 200 }, (_, index) => ({ index, of: [index] }));

/** Adds a call, and deletes the oldest when there are more than are open at a time. */
function churn<M>(add: (call: object) => M, remove: (membership: M) => void): () => void {
  const open = Array.from({ length: OPEN }, () => add(makeCall()));
  return () => {
    open.push(add(makeCall()));
    remove(open.shift() as M);
  };
}

const [kind, config = '{}'] = process.argv.slice(2);

async function statementsOf(client: Client): Promise<() => Promise<void>> {
  await client.connect();
  const values = ['x'.repeat(5_000)];
  return async () => void (await client.query({ text: 'select $1::text', values }));
}

const KINDS: Record<string, () => (() => void) | Promise<() => Promise<void>>> = {
  registry() {
    const registry = new Registry<object>();
    return churn(
      (call) => registry.add(call),
      (membership) => registry.delete(membership),
    );
  },
  set() {
    const set = new Set<object>();
    return churn(
      (call) => {
        set.add(call);
        return call;
      },
      (call) => set.delete(call),
    );
  },
  statement: () => statementsOf(new StoreClient(JSON.parse(config) as object)),
  'statement of pg': () => statementsOf(new Client(JSON.parse(config) as object)),
};

const call = await KINDS[kind ?? '']?.();
if (!call) throw new Error(`there are no calls of the kind "${kind}"`);
await call();
collect({ type: 'major' });
age();
const before = oldGenerationBytes();
for (let n = 1; n <= CALLS; n++) {
  await call();
  if (n % COLLECT_EVERY === 0) collect({ type: 'minor' });
}
age();
console.log((oldGenerationBytes() - before) / CALLS);
process.exit(0);
