import type { EventOf } from '#db/events/events.ts';
import type { BatchLine } from '#db/stored/batches.ts';
import { acceptedLine, type BatchFacts } from '#server/batches/batch-facts.ts';
import type { BatchStore } from '#server/batches/batch-store.ts';
import { ENDINGS_PER_CHUNK } from '#server/batches/bounds.ts';
import type { CallEnd } from '#server/relay/reply-usage.ts';
import { endingOf, lostEnding } from '#server/stored/judge-poll.ts';

/** A batch whose lines end. */
export type EndingBatch = {
  batch: string;
  facts: BatchFacts;
  upstream: string;
  credential: string | null;
  /** Since it was created. */
  ageMs: number;
};

/** Where endings are recorded: by an instance that is live. */
export type Recorder = { store: Pick<BatchStore, 'openLines' | 'settle'>; instance: number };

/** The ending of a line. */
export function lineEnding(
  { facts, ageMs, ...place }: EndingBatch,
  line: BatchLine,
  end: CallEnd,
): EventOf<'request.settled'> {
  const call = { accepted: acceptedLine(facts, line), price: facts.prices[line.model] ?? null, attempts: 1 };
  return endingOf(call, place, end, ageMs);
}

/** Ends all lines that have no ending in the same way. */
export function endLines(recorder: Recorder, batch: EndingBatch, end: CallEnd): Promise<void> {
  return endAll(recorder, batch, (line) => lineEnding(batch, line, end));
}

/** Ends all lines that have no ending as lost: each is charged its reservation. */
export function loseLines(recorder: Recorder, batch: EndingBatch): Promise<void> {
  return endAll(recorder, batch, (line) => lostEnding({ accepted: acceptedLine(batch.facts, line) }, line));
}

async function endAll(
  { store, instance }: Recorder,
  { batch }: EndingBatch,
  ending: (line: BatchLine) => EventOf<'request.settled' | 'request.abandoned'>,
): Promise<void> {
  for (;;) {
    const lines = await store.openLines(batch, ENDINGS_PER_CHUNK);
    if (lines.length === 0) return;
    await store.settle(instance, batch, lines.map(ending));
  }
}
