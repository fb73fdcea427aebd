/** Loading parts of the page while the server restarts, or while the browser is offline. */

const PAUSE_FIRST_MS = 250;
const PAUSE_MAX_MS = 2_000;

const listeners = new Set<() => void>();
let reaching: Promise<void> | null = null;

/**
 * Loads a module. A failure is reported once the server can be reached: browsers keep it for the life of the
 * page, so the page must be reloaded then, also when the module belongs to an older version of the server.
 */
export async function whenReachable<T>(load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (error) {
    await untilReachable();
    throw error;
  }
}

/** Whether a module waits for the server. */
export const isWaiting = (): boolean => reaching !== null;

export function onWaiting(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** All that wait share one series of requests. */
async function untilReachable(): Promise<void> {
  if (await isReachable()) return;
  if (reaching === null) {
    reaching = poll();
    notify();
  }
  await reaching;
}

async function poll(): Promise<void> {
  let pauseMs = PAUSE_FIRST_MS;
  do {
    const waitMs = pauseMs;
    await new Promise((resolve) => setTimeout(resolve, waitMs));
    pauseMs = Math.min(2 * pauseMs, PAUSE_MAX_MS);
  } while (!(await isReachable()));
  reaching = null;
  notify();
}

const isReachable = (): Promise<boolean> =>
  fetch('/healthz', { cache: 'no-store' }).then(
    ({ ok }) => ok,
    () => false,
  );

function notify(): void {
  for (const listener of listeners) listener();
}
