/** Metrics: their names, meanings and labels. Pure. */

export type MetricType = 'counter' | 'gauge' | 'histogram';

/**
 * What reports it: each `server` process, each `worker` process, `all` of both, or the `service`, which reads
 * it from the database once per scrape, whatever the number of processes.
 */
export type MetricOrigin = 'server' | 'worker' | 'all' | 'service';

export type MetricDefinition = Readonly<{
  /** Without the suffix of its type, as OpenMetrics names the family. */
  name: string;
  type: MetricType;
  /** The last word of the name; absent: a plain number. */
  unit?: 'seconds' | 'bytes' | 'usd';
  origin: MetricOrigin;
  /** One sentence. */
  help: string;
  labels: readonly string[];
  /** Upper bounds of a histogram's buckets, increasing. */
  buckets?: readonly number[];
}>;

/** A point of a histogram's bucket: one observation with the request that it belongs to. */
export type Exemplar = { request: string; trace: string | null; value: number; atMs: number };

export type HistogramValue = {
  /** Of each bucket alone, the last one without an upper bound. */
  counts: readonly number[];
  sum: number;
  exemplars: readonly (Exemplar | null)[];
};

/** The value of one series at a moment. Plain data: it travels between processes as JSON. */
export type Sample = {
  /** The name of its definition. */
  name: string;
  /** The values of its labels, in their order. */
  labels: readonly string[];
  value: number | HistogramValue;
};

/** A sample of a metric with one value per series. */
export const gauge = ({ name }: MetricDefinition, value: number, ...labels: string[]): Sample => ({
  name,
  labels,
  value,
});
