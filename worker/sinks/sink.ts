import type { SpendEvent } from '#db/spend/spend-event.ts';

/**
 * A sink as the worker uses it: a connection to a receiver of spend events. Delivery is at least once, in the
 * order of the log: a batch is repeated, in whole or in part, until the receiver has acknowledged it, and
 * receivers recognize repeated events by their `id`. Only one worker delivers to a sink at a time.
 *
 * A new kind of sink implements this type in a file of its own; see db/spend/sink-config.ts for its
 * configuration, and `openSink` in worker/sinks/open-sink.ts, which has a case for each kind.
 */
export type Sink = {
  /**
   * Delivers a batch, which is not empty. It ends within the time that it was given: a receiver without an
   * answer by then has failed.
   * @param signal aborted after the time of one delivery, and when the worker stops.
   * @returns what the receiver acknowledged; a failure is a result and no error.
   */
  deliver: (batch: readonly SpendEvent[], signal: AbortSignal) => Promise<Delivered>;
  /**
   * Sends a test event, which no receiver counts.
   * @param id of the event.
   * @returns the fault, as of a delivery; null: the receiver accepted it.
   */
  test: (id: string, signal: AbortSignal) => Promise<string | null>;
  /** The most events of a batch. */
  batchMax: number;
  /** Closes connections that it keeps. It is used no more. */
  close: () => Promise<void>;
};

/** The result of a delivery. */
export type Delivered = {
  /** The events from the beginning of the batch that were acknowledged. */
  acknowledged: number;
  /**
   * Why the others were not; null: all were. A stable code such as `http_503` or `ECONNREFUSED`: it is shown
   * and logged, and contains no address, secret or text of the receiver.
   */
  fault: string | null;
};

/** What every kind of sink is opened with. */
export type SinkContext = {
  /** The sink's id, for identifiers of batches. */
  id: string;
  /** The identity of the log, `daybook/<id>`: the source of the events. */
  source: string;
};
