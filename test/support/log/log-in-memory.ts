import type { Event, Placed } from '#db/events/events.ts';
import { placeEvent } from '#db/log/read.ts';
import { streamOf } from '#db/events/streams.ts';
import type { Writer } from './log-writer.ts';

/** A log without a database, for what is pure: what is appended to it stands there, batch by batch. */
export class LogInMemory implements Pick<Writer, 'append' | 'control' | 'correct'> {
  readonly events: Placed[] = [];
  #now: number;
  readonly #stepMs: number;

  /** @param stepMs how much later each batch is than the one before it. */
  constructor(now: number, stepMs: number) {
    this.#now = now;
    this.#stepMs = stepMs;
  }

  append: Writer['append'] = (events) => this.#add(events.map((event) => ({ event, version: null })));
  correct: Writer['correct'] = this.append;
  control: Writer['control'] = (appends) => this.#add(appends);

  #add(events: readonly { event: Event; version: number | null }[]): Promise<number> {
    const at = new Date((this.#now += this.#stepMs));
    for (const { event, version } of events) {
      const read = { shard: 0, position: this.events.length + 1, at, instance: 1, event };
      this.events.push(placeEvent(read, 'actor' in event ? streamOf(event) : null, version));
    }
    return Promise.resolve(this.events.length);
  }
}
