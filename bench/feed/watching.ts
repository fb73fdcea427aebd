import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { attachStore } from '#db/postgres/store.ts';
import { withControl } from '#server/control/control.ts';
import { loadPepper } from '#server/secrets/pepper.ts';
import { plainEnvironment } from '../machine/programs.ts';
import type { Surroundings } from '../targets/target.ts';
import type { Order, Watched } from './viewers.ts';

const VIEWERS = join(import.meta.dirname, 'viewers.ts');
/** Until servers know new keys. */
const SETTLE_MS = 500;

/** Makes keys that read the account whose calls are made. */
export async function makeViewerKeys(dataDir: string, count: number): Promise<string[]> {
  const store = await attachStore({ DAYBOOK_DATA: dataDir });
  return withControl(store, 'bench', async (control, client) => {
    const pepper = await loadPepper(client, { DAYBOOK_DATA: dataDir, DAYBOOK_PEPPER_FILE: undefined });
    const secrets: string[] = [];
    while (secrets.length < count) {
      const { id, secret } = await control.createKey(pepper, {
        account: 'bench',
        name: 'viewer',
        expiresAt: null,
      });
      await control.restrictKey(id, {
        set: { reads: 'account' },
        drop: [],
        clear: false,
        expiresAt: undefined,
        windows: 'keep',
      });
      secrets.push(secret);
    }
    await sleep(SETTLE_MS);
    return secrets;
  });
}

/** Opens so many viewers of the live feed, in a process of their own. */
export async function openViewers(
  { pinning }: Surroundings,
  port: number,
  secrets: string[],
  viewers: number,
): Promise<ChildProcess> {
  const [file, ...args] = [...pinning.prefix('load'), process.execPath, VIEWERS];
  const child = spawn(file, args, {
    env: plainEnvironment(),
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  send(child, { kind: 'connect', port, secrets, viewers });
  await once(child, 'message');
  await sleep(SETTLE_MS);
  return child;
}

/** From here on, what the viewers see counts. */
export function startCounting(viewers: ChildProcess): void {
  send(viewers, { kind: 'count' });
}

/** What they have seen since; they end with it. */
export async function reportOf(viewers: ChildProcess): Promise<Watched> {
  send(viewers, { kind: 'report' });
  const [watched] = (await once(viewers, 'message')) as [Watched];
  return watched;
}

/** Ends them without a report. */
export function closeViewers(viewers: ChildProcess): void {
  viewers.kill();
}

function send(child: ChildProcess, order: Order): void {
  child.send(order);
}
