/** Time between two looks at the clock of the thread. */
const TICK_MS = 10;

/**
 * Measures the most CPU time that this thread uses between two ticks, which is the longest turn of its event
 * loop whatever else the machine does.
 * @returns reads the most in milliseconds since the last reading.
 */
export function measureTurns(): () => number {
  let mostMs = 0;
  let usedMs = threadCpuMs();
  setInterval(() => {
    const nowMs = threadCpuMs();
    mostMs = Math.max(mostMs, nowMs - usedMs);
    usedMs = nowMs;
  }, TICK_MS).unref();
  return () => {
    const readMs = mostMs;
    mostMs = 0;
    return readMs;
  };
}

function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}
