import { createHash, hash } from 'node:crypto';
import type { ClientBase } from 'pg';
import { fieldsOf, leafContent, rowOfFields } from '#db/audit/source/event-row.ts';
import { AT, checkEvent } from '#db/audit/verify/event.ts';
import { readRetainedTexts } from '#db/audit/verify/pages.ts';
import type { Verification } from '#db/audit/verify/verification.ts';
import type { PartitionRow } from '#db/audit/verify/tables.ts';
import { Manifest } from '#db/archive/manifest.ts';
import { PAGE_EVENTS } from '#db/archive/bounds.ts';

/** Verifies the retained control events of partitions whose files are not available, by their manifests. */
export async function verifyRetainedEvents(
  client: ClientBase,
  partitions: readonly PartitionRow[],
  verification: Verification,
): Promise<void> {
  for (const { number, first, last, manifest: stored } of partitions) {
    const digest = createHash('sha256');
    let count = 0;
    let isInvalid = false;
    const find = (position: number, problem: string): void => {
      isInvalid = true;
      verification.tableFindings.push({
        position,
        table: 'log_kept',
        problem: `the row of position ${position} ${problem}`,
      });
    };
    for (let after = first - 1; ;) {
      const rows = await readRetainedTexts(client, {
        after: String(after),
        upTo: String(last),
        limit: PAGE_EVENTS,
      });
      for (const { text } of rows) {
        const fields = fieldsOf(text);
        const row = rowOfFields(fields, text);
        const leaf = hash('sha256', leafContent(row), 'buffer');
        digest.update(leaf);
        count++;
        after = row.position;
        const checked = checkEvent(fields);
        if (checked.problem !== null) find(after, checked.problem);
        else if (await verification.differsFromPublished(after, leaf))
          find(after, 'differs from the published leaf at this position');
        const stream = fields[AT.stream];
        const event = checked.problem === null ? checked.control : null;
        if (stream != null)
          verification.addControlEvent(
            { position: after, text, stream, version: Number(fields[AT.version]), event },
            'log_kept',
          );
      }
      if (rows.length < PAGE_EVENTS) break;
    }
    const manifest = Manifest.safeParse(stored);
    if (
      isInvalid ||
      (manifest.success &&
        manifest.data.control_count === count &&
        manifest.data.control_sha256 === digest.digest('hex'))
    )
      continue;
    verification.tableFindings.push({
      position: first,
      to: last,
      table: 'log_kept',
      problem: `the ${count} retained control events of partition ${number} do not match its manifest`,
    });
  }
}
