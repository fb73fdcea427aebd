import { type Alert, isOpen, lasting } from '#db/alerts/alerts.ts';

/** Alerts of sinks that fail or lag behind the log. Pure. */

/** Failed deliveries in a row: with growing pauses, about half a minute after the first. */
const FAILURES_MIN = 5;
/** The age of the oldest undelivered event, also without a failure: the receiver may be too slow. */
export const SINK_BEHIND_MS = 5 * 60_000;
/** Well below the raising threshold (hysteresis), so that the alert does not flap. */
const CAUGHT_UP_MS = 60_000;

/** A sink's failed deliveries in a row, and its lag: positions, and the age of the oldest of them. */
export type SinkFigures = {
  id: string;
  name: string;
  kind: string;
  paused_at: Date | null;
  failures: number;
  fault: string | null;
  behind: number;
  behind_ms: number;
};

/** By id: a new sink of the same name is another one. */
export const sinkTopic = ({ id }: Pick<SinkFigures, 'id'>): string => `sink_failing/${id}`;

/**
 * A paused sink changes nothing: an administrator has paused it.
 * @param last the newest occurrence of its topic, raised or recovered; 0: none.
 */
export function sinkAlert(sink: SinkFigures, last: number): Alert | null {
  if (sink.paused_at !== null) return null;
  const { name, kind, failures, fault, behind, behind_ms } = sink;
  const isFailing = failures >= FAILURES_MIN || behind_ms >= SINK_BEHIND_MS;
  const hasRecovered = failures === 0 && behind_ms <= CAUGHT_UP_MS;
  const changes = isOpen(last) ? hasRecovered : isFailing;
  const details = { sink: name, sink_kind: kind, failures, fault, behind, behind_ms: Math.round(behind_ms) };
  return changes ? lasting('sink_failing', sinkTopic(sink), last, details) : null;
}
