import { OTHER } from '#db/telemetry/bounds.ts';
import type { Exemplar, HistogramValue, MetricDefinition, Sample } from '#db/telemetry/definition.ts';

/** One series of a counter. */
export class Counter {
  value = 0;
}

/** One series of a counter of money, which is added up without rounding. */
export class CostCounter {
  nanoUsd = 0;

  get value(): number {
    return this.nanoUsd / 1e9;
  }
}

/**
 * One series of a histogram. Each bucket keeps its newest observation that belongs to a request, as an
 * exemplar.
 */
export class Histogram {
  readonly #bounds: readonly number[];
  readonly #counts: number[];
  readonly #exemplars: (Exemplar | null)[];
  #sum = 0;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = Array.from({ length: bounds.length + 1 }, () => 0);
    this.#exemplars = Array.from({ length: bounds.length + 1 }, () => null);
  }

  /** @param request the request that it is an observation of; null: of none. */
  observe(value: number, request: string | null = null, trace: string | null = null): void {
    let bucket = 0;
    while (bucket < this.#bounds.length && value > (this.#bounds[bucket] as number)) bucket++;
    (this.#counts[bucket] as number)++;
    this.#sum += value;
    if (request === null) return;
    // Changed in place, since a new object would be made for each call.
    const known = this.#exemplars[bucket];
    if (!known) {
      this.#exemplars[bucket] = { request, trace, value, atMs: Date.now() };
      return;
    }
    known.request = request;
    known.trace = trace;
    known.value = value;
    known.atMs = Date.now();
  }

  get value(): HistogramValue {
    return {
      counts: [...this.#counts],
      sum: this.#sum,
      exemplars: this.#exemplars.map((each) => each && { ...each }),
    };
  }
}

/**
 * The series of one metric by the values of its labels. Looking one up costs some tenths of a microsecond, so
 * those of calls are kept by their callers. It has as many series as it was asked for: callers bound them.
 */
export class Family<S extends { readonly value: number | HistogramValue }> {
  readonly definition: MetricDefinition;
  readonly #create: () => S;
  readonly #series = new Map<string, { labels: readonly string[]; series: S }>();

  constructor(definition: MetricDefinition, create: () => S) {
    this.definition = definition;
    this.#create = create;
  }

  /** The series of these values, which begins at 0. */
  of(...labels: readonly string[]): S {
    const name = labels.join('\n');
    const known = this.#series.get(name);
    if (known) return known.series;
    const series = this.#create();
    this.#series.set(name, { labels, series });
    return series;
  }

  get samples(): Sample[] {
    const { name } = this.definition;
    return [...this.#series.values()].map(({ labels, series }) => ({ name, labels, value: series.value }));
  }
}

export const counters = (definition: MetricDefinition): Family<Counter> =>
  new Family(definition, () => new Counter());

export const costCounters = (definition: MetricDefinition): Family<CostCounter> =>
  new Family(definition, () => new CostCounter());

export const histograms = (definition: MetricDefinition): Family<Histogram> =>
  new Family(definition, () => new Histogram(definition.buckets ?? []));

/**
 * The values of a label that are kept apart: the first so many of them. All others are {@link OTHER}.
 */
export class LabelValues {
  readonly #values = new Set<string>();
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  of(value: string): string {
    if (this.#values.has(value)) return value;
    if (this.#values.size >= this.#max) return OTHER;
    this.#values.add(value);
    return value;
  }
}
