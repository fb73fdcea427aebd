import type pg from 'pg';
import { LINE_COLUMNS, queryLines, type Read } from '#db/log/read.ts';

/** Events of one account, key or request, found by a walk over a range of the log. */

const READ_SUBJECT = `select ${LINE_COLUMNS} from daybook.lines($1, $2)
  where (split_part(line, ',', 3) = '' or split_part(line, ',', 3) = coalesce($3, split_part(line, ',', 3)))
    and (split_part(line, ',', 4) = '' or split_part(line, ',', 4) = coalesce($4, split_part(line, ',', 4)))
  order by last_position, line_number limit $5`;
const READ_REQUEST = `select ${LINE_COLUMNS} from daybook.lines($1, $2)
  where split_part(line, ',', 2) = $3 order by last_position, line_number limit $4`;

/**
 * The events of one account, or of one of its keys, within a range, and the control
 * events of no account, such as changes of plans. Finds them by a walk over the positions above
 * `after` up to `upTo`, so that range is to be a bounded one.
 * @param subject null matches any account or key.
 */
export async function readSubject(
  client: pg.ClientBase,
  subject: { account: string | null; key: string | null },
  range: { after: number; upTo: number },
  limit: number,
): Promise<Read[]> {
  const values = [range.after, range.upTo, subject.account, subject.key, limit];
  return queryLines(client, 'read_subject', READ_SUBJECT, values);
}

/**
 * The events of one request from one position to another, which are to be near each other: what lies between
 * is walked through.
 */
export async function readRequest(
  client: pg.ClientBase,
  request: string,
  range: { from: number; to: number },
  limit: number,
): Promise<Read[]> {
  return queryLines(client, 'read_request', READ_REQUEST, [range.from - 1, range.to, request, limit]);
}
