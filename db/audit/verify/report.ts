/** The report of a verification. */

/**
 * A problem. `position` is the first invalid position; for a row of a table beside the log, the position that
 * the row is about. If the evidence can't single out one event, `to` is the last candidate.
 */
export type Finding = { position: number; to?: number; table: string; problem: string };

/** The source of the trusted keys: given by the auditor, published, or only named in the log itself. */
export type Trust = 'given' | 'published' | 'log' | 'none';

export type Report = {
  log_id: string;
  /** The first position that was read, and the last position of the log. */
  first: number;
  head: number;
  events: number;
  batches: number;
  /** The number of signed checkpoints that the events agree with. */
  checkpoints: number;
  /**
   * The root of the tree up to the head, in base64 as in checkpoints; null if its left part is unknown.
   */
  root: string | null;
  /**
   * The size of the largest checkpoint that agrees, and its time of publication; 0 and null without one.
   */
  covered: number;
  published_at: string | null;
  trust: Trust;
  /** Information that is not a finding. */
  notes: string[];
  /** Ordered by position, at most FINDINGS_MAX. */
  findings: Finding[];
};

/** A range of positions as text. */
export const spanOf = (from: number, to: number): string =>
  from === to ? `position ${from}` : `positions ${from} to ${to}`;
