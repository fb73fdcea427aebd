import type { ClientBase } from 'pg';
import { LOG_STREAM } from '#db/events/streams.ts';
import type { Placed } from '#db/events/events.ts';
import { allReadable, dateOf, inRange, readBatches, readHead, readLine, readStream } from '#db/log/read.ts';
import { isSpendLine, type SpendEvent, spendEventOf } from '#db/spend/spend-event.ts';

/** A part of the spend events in the order of the log. */
export type SpendPage = {
  events: SpendEvent[];
  /** Every spend event up to here was looked at: where the next page begins. */
  upTo: number;
  /** The newest position of the log when the page was read. */
  head: number;
};

/** Positions that are looked at for one page: some milliseconds of reading and parsing. */
const POSITIONS_MAX = 10_000;

/**
 * Reads the next spend events from the log itself, which is complete at every position: projections may be
 * some seconds behind.
 * @param options.after the position up to which they were read before; 0: none.
 * @param options.limit the most events of the page.
 * @param options.matches the events wanted, by default all.
 * @throws {ArchivedError} when the events after the position were moved to the archive.
 * @throws {GapError} when the log is damaged there.
 * @throws {UnreadableEventError} at an event of a newer version that may not be skipped.
 */
export async function readSpendPage(
  client: ClientBase,
  {
    after,
    limit,
    matches = () => true,
  }: { after: number; limit: number; matches?: (event: SpendEvent) => boolean },
): Promise<SpendPage> {
  const head = await readHead(client);
  const range = { after, upTo: Math.min(after + POSITIONS_MAX, head) };
  if (range.upTo <= after) return { events: [], upTo: after, head };
  const epochs = (await readStream(client, LOG_STREAM)).flatMap(({ event, position }) =>
    event.type === 'log.epoch_started' ? [{ epoch: event.epoch, position }] : [],
  );
  const events: SpendEvent[] = [];
  for (const batch of await readBatches(client, range)) {
    const lines = inRange(batch.events.split('\n'), batch, range);
    const first = Math.max(Number(batch.row.lastPosition) - Number(batch.row.eventCount), after) + 1;
    const at = dateOf(batch.row.at);
    const instance = Number(batch.row.instance);
    for (const [index, line] of lines.entries()) {
      if (!isSpendLine(line)) continue;
      const [placed] = allReadable([readLine(first + index, at, instance, line)]);
      const event = placed === undefined ? null : spendEventOf(placed, epochAt(epochs, placed));
      if (event === null || !matches(event)) continue;
      events.push(event);
      if (events.length === limit) return { events, upTo: event.position, head };
    }
  }
  return { events, upTo: range.upTo, head };
}

type Epoch = { epoch: number; position: number };

const epochAt = (epochs: readonly Epoch[], { position }: Placed): number =>
  epochs.findLast((each) => each.position <= position)?.epoch ?? 1;
