import type { ControlEvent } from '#db/events/events.ts';

/**
 * What a fold takes: a control event with its place in the log and in its subject's stream. The version of
 * the subject is that of its newest event, never a count of the events that the fold knows: a change must
 * name the version after the one that the log has reached.
 */
export type Stored<E extends ControlEvent> = {
  event: E;
  /** The event's time in the log. */
  at: Date;
  position: number;
  /** The event's version in its stream. */
  version: number;
};
