import { createHash } from 'node:crypto';
import type { ClientBase } from 'pg';
import { parseLine } from '#db/archive/line.ts';
import { readRetainedLines } from '#db/archive/read-lines.ts';
import type { Manifest } from '#db/archive/manifest.ts';
import { ArchiveDamageError } from '#db/archive/verify.ts';
import { leafOf } from '#db/log/chain.ts';
import { SHARD } from '#db/log/append.ts';
import { PAGE_EVENTS } from '#db/archive/bounds.ts';

/**
 * Checks that the retained control events of an archived partition are complete and unchanged.
 * @throws {ArchiveDamageError} when they are not.
 */
export async function verifyRetained(client: ClientBase, manifest: Manifest): Promise<void> {
  const digest = createHash('sha256');
  let count = 0;
  for (let after = manifest.first_position - 1; ;) {
    const rows = await readRetainedLines(client, {
      after: String(after),
      upTo: String(manifest.last_position),
      limit: PAGE_EVENTS,
    });
    for (const { line } of rows) {
      const event = parseLine(line, SHARD);
      if (!('event' in event)) continue;
      digest.update(leafOf(event.event));
      after = Number(event.event[1]);
      count++;
    }
    if (rows.length < PAGE_EVENTS) break;
  }
  if (count === manifest.control_count && digest.digest('hex') === manifest.control_sha256) return;
  throw new ArchiveDamageError('daybook.log_kept', {
    position: manifest.first_position,
    problem:
      `the ${count} retained control events do not match the ${manifest.control_count} ` +
      `of ${manifest.file}`,
  });
}
