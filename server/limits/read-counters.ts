import type { Client } from 'pg';
import { readAllowanceUsage, type AllowanceUsage } from '#db/limits/leases.ts';
import type { SubjectLimits } from '#db/limits/limits.ts';
import { minuteOf, windowStart } from '#db/limits/windows.ts';
import { Counter } from '#server/limits/counter.ts';

/**
 * Reads the counters of limits without an instance or leases, for the command line.
 * @param nowMs Postgres' time, in milliseconds since 1970.
 */
export async function readCounters(
  client: Client,
  subjects: readonly SubjectLimits[],
  nowMs: number,
): Promise<Counter[]> {
  const minute = minuteOf(nowMs);
  const counters = subjects.flatMap(({ subject, limits, position }) =>
    limits.map((limit) => new Counter(subject, limit, windowStart(limit.window, minute), position, () => {})),
  );
  const usages = await readAllowanceUsage(client, counters);
  for (const [index, counter] of counters.entries()) {
    const { used, held } = usages[index] as AllowanceUsage;
    counter.reported = { free: counter.cap - used - held, used, held, leased: held };
  }
  return counters;
}
