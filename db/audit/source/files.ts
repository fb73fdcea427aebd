import { basename } from 'node:path';
import { ArchiveDamageError } from '#db/archive/damage.ts';
import { type HeadedFile, openConsecutive } from '#db/archive/header.ts';
import { type Predecessor, logStart, continuityDamage, verifiedBatches } from '#db/archive/verify.ts';
import type { Source } from '#db/audit/source/source.ts';
import type { BatchEvents } from '#db/log/chain.ts';
import type { LogRange } from '#db/log/read.ts';

/**
 * Exported files as a source of events. Each batch is verified by its file's chain before it is passed on,
 * and each file must continue the one before it.
 * @param names in any order.
 * @throws {StoreError} when none are named, one can't be read, or they are not consecutive files of one log.
 */
export async function fileSource(names: readonly string[]): Promise<Source & { logId: string }> {
  const files = await openConsecutive(names);
  const [first, last] = [files[0] as HeadedFile, files.at(-1) as HeadedFile];
  return {
    logId: first.header.log_id,
    first: first.header.first_position,
    head: last.header.last_position,
    seek: () => Promise.resolve(null),
    isLive: () => false,
    read: (range) => pagesOf(files, range),
  };
}

async function* pagesOf(
  files: readonly HeadedFile[],
  { after, upTo }: LogRange,
): AsyncGenerator<BatchEvents[]> {
  let before: Predecessor | undefined;
  for (const { file, header } of files) {
    if (header.last_position <= after || header.first_position > upTo) continue;
    if (header.first_position === 1) before = logStart(header.log_id);
    const pages = verifiedBatches(file);
    try {
      for (let step = await pages.next(); ; step = await pages.next()) {
        if (step.done === true) {
          const damage = before && continuityDamage(before, step.value);
          if (damage) throw new ArchiveDamageError(basename(file), damage);
          before = step.value;
          break;
        }
        const page = step.value.filter(
          ({ row }) =>
            Number(row.lastPosition) > after && Number(row.lastPosition) - Number(row.eventCount) < upTo,
        );
        if (page.length > 0) yield page;
        if (Number(page.at(-1)?.row.lastPosition) >= upTo) return;
      }
    } finally {
      await pages.return(undefined as never);
    }
  }
}
