import * as fc from 'fast-check';
import { streamOf } from '#db/events/streams.ts';
import { anyControlEvent } from './log/arbitrary-event.ts';
import type { Writer } from './log/log-writer.ts';

/** Appends so many control events of all kinds, each as the next of its own stream. */
export function controller(writer: Writer) {
  const versions = new Map<string, number>();
  return (count: number): Promise<number> =>
    writer.control(
      fc.sample(anyControlEvent, count).map((event) => {
        const version = (versions.get(streamOf(event)) ?? 0) + 1;
        versions.set(streamOf(event), version);
        return { event, version };
      }),
    );
}
