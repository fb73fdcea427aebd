import { hash } from 'node:crypto';
import { type Checked, checkEvent, endOfRequest } from '#db/audit/verify/event.ts';
import type { HashText } from '#db/audit/verify/tree.ts';
import type { BatchRow } from '#db/log/chain.ts';
import { isControlLine } from '#db/log/control-lines.ts';

/** The lines of a batch, one by one. Pure. */

/** A line that is no plain request: a control event, a request with a body, or an invalid line. */
export type OtherLine = { index: number; line: string; isControl: boolean; checked: Checked };

/** The lines of a batch, checked: the leaf hash of each, in order, and the few that are no plain requests. */
export type CheckedLines = { leaves: HashText[]; others: OtherLine[] };

/** What the entries of a batch have before their fields. */
export type EntryHeader = Pick<BatchRow, 'shard' | 'at' | 'instance'>;

/** Checks the lines of a batch, and hashes their entries. @param first the position of the first line. */
export function checkLines(
  { shard, at, instance }: EntryHeader,
  first: number,
  events: string,
): CheckedLines {
  const leaves: HashText[] = [];
  const others: OtherLine[] = [];
  const before = `\0(${shard},`;
  const after = `,${at},${instance},`;
  for (let from = 0; from <= events.length;) {
    let end = endOfRequest(events, from);
    if (end < 0) {
      const found = events.indexOf('\n', from);
      end = found < 0 ? events.length : found;
      const line = events.slice(from, end);
      others.push({ index: leaves.length, line, isControl: isControlLine(line), checked: checkEvent(line) });
    }
    // Without its first character a line is the end of its entry.
    leaves.push(
      hash('sha256', before + (first + leaves.length) + after + events.slice(from + 1, end), 'latin1'),
    );
    from = end + 1;
  }
  return { leaves, others };
}
