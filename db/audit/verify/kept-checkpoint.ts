import { createHash, hash } from 'node:crypto';
import type { ClientBase } from 'pg';
import { fieldsOf, leafContent, rowOfFields } from '#db/audit/source/lines.ts';
import { AT, checkEvent } from '#db/audit/verify/event.ts';
import { READ_KEPT_TEXTS } from '#db/audit/verify/pages.ts';
import type { Session } from '#db/audit/verify/verify-session.ts';
import type { PartitionRow } from '#db/audit/verify/tables.ts';
import { Manifest } from '#db/archive/manifest.ts';
import { SHARD } from '#db/log/append.ts';

const PAGE_ROWS = 5_000;

/**
 * Checks control events that were kept of partitions whose own events are not at hand: by themselves, and by
 * their manifests.
 */
export async function checkKeptAlone(
  client: ClientBase,
  partitions: readonly PartitionRow[],
  session: Session,
): Promise<void> {
  for (const { number, first, last, manifest: stored } of partitions) {
    const digest = createHash('sha256');
    let count = 0;
    let isBad = false;
    const find = (position: number, problem: string): void => {
      isBad = true;
      session.beside.push({
        position,
        table: 'log_kept',
        problem: `the row of position ${position} ${problem}`,
      });
    };
    for (let after = first - 1; ;) {
      const { rows } = await client.query<[string, string | null]>({
        text: READ_KEPT_TEXTS,
        values: [SHARD, after, last, PAGE_ROWS],
        rowMode: 'array',
      });
      for (const [text, format] of rows) {
        const fields = fieldsOf(text);
        const row = rowOfFields(fields, text);
        const leaf = hash('sha256', leafContent(row, format ?? '') ?? '\0', 'buffer');
        digest.update(leaf);
        count++;
        after = row.position;
        const checked = checkEvent(fields);
        if (checked.problem !== null) find(after, checked.problem);
        else if (await session.isUnlikePublished(after, leaf))
          find(after, 'is not what was published at this position');
        const stream = fields[AT.stream];
        const event = checked.problem === null ? checked.control : null;
        if (stream != null)
          session.takeControl(
            { position: after, text, stream, version: Number(fields[AT.version]), event },
            'log_kept',
          );
      }
      if (rows.length < PAGE_ROWS) break;
    }
    const manifest = Manifest.safeParse(stored);
    if (
      isBad ||
      (manifest.success &&
        manifest.data.control_count === count &&
        manifest.data.control_sha256 === digest.digest('hex'))
    )
      continue;
    session.beside.push({
      position: first,
      to: last,
      table: 'log_kept',
      problem: `the ${count} control events that were kept of partition ${number} are not those that its manifest tells of`,
    });
  }
}
