import type { ControlEvent } from '#db/events/events.ts';
import { streamOf } from '#db/events/streams.ts';
import type { Stored } from '#db/fold/stored.ts';

/** Control events as stored in a log from position 1: a minute apart, with the versions of their streams. */
export function storedEvents<E extends ControlEvent>(events: readonly E[]): Stored<E>[] {
  const versions = new Map<string, number>();
  return events.map((event, index) => {
    const version = (versions.get(streamOf(event)) ?? 0) + 1;
    versions.set(streamOf(event), version);
    return { event, at: new Date(Date.UTC(2026, 0, 1, 0, index)), position: index + 1, version };
  });
}

/** One event under a version of the test's choice. */
export function storedAs<E extends ControlEvent>(event: E, version: number): Stored<E> {
  return { event, at: new Date(Date.UTC(2026, 0, 1)), position: version, version };
}
