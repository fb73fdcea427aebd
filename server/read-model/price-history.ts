import type { EventOf } from '#db/events/events.ts';
import type { Stored } from '#db/fold/stored.ts';
import { type FullRate, rateAt, type Schedule, scheduleOf } from '#db/pricing/schedule.ts';
import type { RateQuery } from '#db/reconcile/compare/attempts.ts';
import { PriceTable } from '#server/read-model/price-table.ts';

type Version = { version: number; atMs: number; schedule: Schedule };

/** All versions of what providers charge, folded from the log. */
export class PriceHistory {
  readonly #table = new PriceTable();
  readonly #versions = new Map<string, Version[]>();

  /** Applies the next price of the log. */
  apply(stored: Stored<EventOf<'model.priced'>>): void {
    if (stored.event.plan !== undefined) return;
    this.#table.apply(stored);
    const { event, version, at } = stored;
    const versions = this.#versions.get(event.model) ?? [];
    this.#versions.set(event.model, versions);
    const { base, rules } = event;
    versions.push({ version, atMs: at.getTime(), schedule: scheduleOf({ base, rules }) });
  }

  /** The rate of an attempt by the version that its call names; null: no price was set. */
  rateOf({ model, version, startMs, ...circumstances }: RateQuery): FullRate | null {
    const versions = this.#of(model);
    const found =
      version === null
        ? versions.findLast(({ atMs }) => atMs <= startMs)
        : versions.find((each) => each.version === version);
    return found === undefined ? null : rateAt(found.schedule, circumstances);
  }

  /** The rates of all versions of a model's price. */
  ratesOf(model: string, circumstances: Parameters<typeof rateAt>[1]): { version: number; rate: FullRate }[] {
    return this.#of(model).map(({ version, schedule }) => ({
      version,
      rate: rateAt(schedule, circumstances),
    }));
  }

  #of(model: string): readonly Version[] {
    const price = this.#table.find(model);
    return (price && this.#versions.get(price.pattern)) ?? [];
  }
}
