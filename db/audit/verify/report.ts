/** What a verification found, and of how much. */

/**
 * One thing that is not as it was written. `position` is the first position that is bad; for a row of
 * a table beside the log, the position that the row is about. Where the evidence leaves more than one
 * event to choose from, `to` is the last of them.
 */
export type Finding = { position: number; to?: number; table: string; problem: string };

/**
 * Whom a verification believed: the auditor's own key, those that were published, or the log's own word for
 * it.
 */
export type Trust = 'given' | 'published' | 'log' | 'none';

export type Report = {
  log_id: string;
  /** The first position that was read, and the last there is. */
  first: number;
  head: number;
  events: number;
  batches: number;
  /** How many signed checkpoints the events agree with. */
  checkpoints: number;
  /**
   * The root of the tree over all events up to the head, in base64 as in checkpoints; null where its left
   * part is not at hand.
   */
  root: string | null;
  /**
   * Up to this position a checkpoint that agrees covers the log, and when that was published; 0 and null
   * without one.
   */
  covered: number;
  published_at: string | null;
  trust: Trust;
  /** What the reader should know and what is no fault. */
  notes: string[];
  /** The first bad position first; whoever finds many stops. */
  findings: Finding[];
};

/** What is said of a row that its own batch contradicts. */
export const OF_ANOTHER_BATCH = 'has another time or instance than its batch';

/** Behind a first one others follow from it; nobody reads more. */
export const FINDINGS_MAX = 100;

/** What a span of positions is called. */
export const spanOf = (from: number, to: number): string =>
  from === to ? `position ${from}` : `positions ${from} to ${to}`;
