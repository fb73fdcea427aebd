import type { ClientBase } from 'pg';
import { ArchivedError, GapError, UnreadableEventError } from '#db/log/read.ts';
import { readSpendPage, type SpendPage } from '#db/spend/read-page.ts';
import { type SpendEvent, withoutOperatorCost } from '#db/spend/spend-event.ts';
import { batchAfter, pauseAfter } from './backoff.ts';
import type { Delivered, Sink } from './sink.ts';
import { advanceSink, type ClaimedSink, failSink, type SinkPlace } from './sink-state.ts';

/** For one delivery with all its requests. Shorter than a claim of the sink. */
export const DELIVERY_MAX_MS = 12_000;

export type DeliverOptions = {
  /** Runs statements over a connection that is shared, and not kept while a receiver is waited for. */
  look: <T>(work: (client: ClientBase) => Promise<T>) => Promise<T>;
  /** Ends the run: the worker stops. */
  signal: AbortSignal;
  /** Called with the fault of a failed delivery. */
  onFault: (fault: string, pauseMs: number) => void;
};

/**
 * Delivers spend events to a claimed sink, batch after batch, until it has all of them, a delivery fails, or
 * the sink was changed meanwhile.
 * @param sink null where its configuration can't be opened.
 * @throws an error of the database; the next run continues where this one was.
 */
export async function deliverSink(
  { worker, id }: Pick<SinkPlace, 'worker' | 'id'>,
  claimed: ClaimedSink,
  sink: Sink | null,
  { look, signal, onFault }: DeliverOptions,
): Promise<void> {
  let { position, failures } = claimed;
  const fail = async (fault: string): Promise<void> => {
    const pauseMs = pauseAfter(failures, Math.random());
    await look((client) => failSink(client, { worker, id, position }, fault, pauseMs));
    onFault(fault, pauseMs);
  };

  if (sink === null) return fail('configuration_unavailable');
  while (!signal.aborted) {
    const limit = batchAfter(sink.batchMax, failures);
    const page = await look((client) => readPage(client, { after: position, limit }, claimed.account));
    if (typeof page === 'string') return fail(page);
    if (page.upTo === position) return;
    const { acknowledged, fault } = await deliver(page.events, sink, signal);
    const upTo = fault === null ? page.upTo : (page.events[acknowledged - 1]?.position ?? position);
    if (upTo > position) {
      const place = { worker, id, position };
      const isOurs = await look((client) => advanceSink(client, place, upTo, acknowledged));
      if (!isOurs) return;
      position = upTo;
      failures = 0;
    }
    // An aborted delivery says nothing of the receiver.
    if (fault !== null) return signal.aborted ? undefined : fail(fault);
  }
}

/** @returns the fault where the log can't be read. */
async function readPage(
  client: ClientBase,
  range: { after: number; limit: number },
  account: string | null,
): Promise<SpendPage | string> {
  try {
    if (account === null) return await readSpendPage(client, range);
    const matches = (event: SpendEvent): boolean => event.account === account;
    const page = await readSpendPage(client, { ...range, matches });
    return { ...page, events: page.events.map(withoutOperatorCost) };
  } catch (error) {
    if (error instanceof ArchivedError) return 'log_archived';
    if (error instanceof GapError) return 'log_gap';
    if (error instanceof UnreadableEventError) return 'newer_event';
    throw error;
  }
}

async function deliver(events: readonly SpendEvent[], sink: Sink, stopping: AbortSignal): Promise<Delivered> {
  if (events.length === 0) return { acknowledged: 0, fault: null };
  const signal = AbortSignal.any([stopping, AbortSignal.timeout(DELIVERY_MAX_MS)]);
  return sink.deliver(events, signal);
}
