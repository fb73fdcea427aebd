import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import type { AnomalyMeter } from '#db/forecast/anomaly.ts';
import { type BucketUnit, UNIT_MS } from '#db/forecast/forecast.ts';
import { db, rowsOf } from '#db/schema/query.ts';

/** Usage by bucket since the first one with usage that is complete, the oldest first; 0 where it was idle. */
export type History = Readonly<Record<AnomalyMeter, readonly number[]>>;

/** Subjects per statement: at most some tens of thousands of rows. */
const SUBJECTS_PER_READ = 50;

/** The usage of subjects within a time, from hours that are rolled up to buckets. */
export const usageBuckets = (
  subjects: readonly string[],
  unit: BucketUnit,
  { fromMs, toMs }: { fromMs: number; toMs: number },
) =>
  db
    .selectFrom('projection.usage_history')
    .select([
      'subject',
      sql<Date>`date_trunc(${sql.lit(unit)}, hour, 'UTC')`.as('bucket'),
      // Sums as floating-point numbers, which are exact up to 2^53.
      sql<number>`sum(tokens)::float8`.as('tokens'),
      sql<number>`sum(cost_nanousd)::float8`.as('cost_nanousd'),
    ])
    .where((eb) => eb('subject', '=', eb.fn.any(sql.val(subjects))))
    .where('hour', '>=', new Date(fromMs))
    .where('hour', '<', new Date(toMs))
    .groupBy(['subject', 'bucket'])
    .orderBy('subject')
    .orderBy('bucket');
type Bucket = { bucket: Date } & Record<AnomalyMeter, number>;

/**
 * The history of subjects that had usage in that time.
 * @param range aligned to the unit.
 */
export async function readHistory(
  client: ClientBase,
  subjects: readonly string[],
  unit: BucketUnit,
  range: { fromMs: number; toMs: number },
): Promise<Map<string, History>> {
  const found = new Map<string, History>();
  for (let from = 0; from < subjects.length; from += SUBJECTS_PER_READ) {
    const rows = await rowsOf(
      client,
      usageBuckets(subjects.slice(from, from + SUBJECTS_PER_READ), unit, range),
    );
    for (const [subject, own] of Map.groupBy(rows, (row) => row.subject))
      found.set(subject, historyOf(own, UNIT_MS[unit], range));
  }
  return found;
}

/** Fills in the idle buckets. The first bucket is excluded where the usage began within it. */
export function historyOf(
  rows: readonly Bucket[],
  unitMs: number,
  { fromMs, toMs }: { fromMs: number; toMs: number },
): History {
  const firstMs = rows[0]?.bucket.getTime() ?? toMs;
  const startMs = firstMs > fromMs ? firstMs + unitMs : fromMs;
  const count = Math.max(0, Math.round((toMs - startMs) / unitMs));
  const history = { cost_nanousd: zeros(count), tokens: zeros(count) };
  for (const { bucket, cost_nanousd, tokens } of rows) {
    const at = (bucket.getTime() - startMs) / unitMs;
    if (at < 0 || at >= count) continue;
    history.cost_nanousd[at] = cost_nanousd;
    history.tokens[at] = tokens;
  }
  return history;
}

const zeros = (count: number): number[] => Array.from({ length: count }, () => 0);
