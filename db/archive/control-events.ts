import { createHash } from 'node:crypto';
import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import { ArchiveDamageError } from '#db/archive/damage.ts';
import type { Manifest } from '#db/archive/manifest.ts';
import { SHARD } from '#db/log/append.ts';
import { leafHash } from '#db/log/chain.ts';
import { AT_US } from '#db/log/columns.ts';
import { entryOf } from '#db/log/line.ts';
import { db, type Placeholders, prepare } from '#db/schema/query.ts';
import { PAGE_EVENTS } from '#db/archive/bounds.ts';

const readControl = prepare(
  'archived_control',
  ({ after, upTo }: Placeholders<{ after: string; upTo: string }>) =>
    db
      .selectFrom('daybook.control_event')
      .select(['position', 'instance', 'line', sql<string>`${sql.raw(AT_US)}`.as('at_us')])
      .where('shard', '=', SHARD)
      .where('position', '>', after)
      .where('position', '<=', upTo)
      .orderBy('position')
      .limit(PAGE_EVENTS),
);

/**
 * Checks that the control events of an archived partition, which stay in the database, are complete and
 * unchanged.
 * @throws {ArchiveDamageError} when they are not.
 */
export async function verifyControlEvents(client: ClientBase, manifest: Manifest): Promise<void> {
  const digest = createHash('sha256');
  let count = 0;
  let after = manifest.first_position - 1;
  for (let isEnd = false; !isEnd;) {
    const rows = await readControl(client, { after: String(after), upTo: String(manifest.last_position) });
    for (const { position, at_us: atUs, instance, line } of rows) {
      after = Number(position);
      digest.update(leafHash(entryOf({ shard: SHARD, position: after, atUs, instance }, line)));
      count++;
    }
    isEnd = rows.length < PAGE_EVENTS;
  }
  if (count === manifest.control_count && digest.digest('hex') === manifest.control_sha256) return;
  throw new ArchiveDamageError('daybook.control_event', {
    position: manifest.first_position,
    problem:
      `its ${count} control events up to position ${manifest.last_position} do not match the ` +
      `${manifest.control_count} of ${manifest.file}`,
  });
}
