import type { Client } from 'pg';
import { readStandings, type Standing } from '#db/limits/leases.ts';
import type { SubjectLimits } from '#db/limits/limits.ts';
import { minuteOf, windowStart } from '#db/limits/windows.ts';
import { Counter } from '#server/limits/counter.ts';

/**
 * How limits stand, for somebody who is no instance and leases nothing: read, and nothing changed.
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
  const standings = await readStandings(client, counters);
  for (const [index, counter] of counters.entries()) {
    const { used, held } = standings[index] as Standing;
    counter.known = { free: counter.cap - used - held, used, held, leased: held };
  }
  return counters;
}
