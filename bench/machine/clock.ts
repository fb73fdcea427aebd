// The two clocks differ by a constant, which is measured once: reading performance.now() makes no
// BigInt, and a load driver reads the time several times per request. The first readings of each
// clock are slow (they compile), so the last of a few is kept.
let offsetUs = 0;
for (let reading = 0; reading < 5; reading++) {
  offsetUs = Number(process.hrtime.bigint() / 1000n) - performance.now() * 1000;
}

/** Microseconds of the machine's monotonic clock, the same in every process on it. */
export function monotonicUs(): number {
  return Math.round(performance.now() * 1000 + offsetUs);
}
