import { type Client, DatabaseError } from 'pg';
import { archive } from '#db/archive/archive.ts';
import { ArchiveDamageError } from '#db/archive/verify.ts';
import { StoreError } from '#db/postgres/connect.ts';
import type { WorkerConfig } from '../config.ts';
import { errorFields, type Logger } from '../logger.ts';

export type ArchiveTaskOptions = {
  config: Pick<WorkerConfig, 'ARCHIVE_DIR' | 'ARCHIVE_KEEP_PARTITIONS' | 'ARCHIVE_DROP'>;
  /** Opens a connection as the owner. */
  connect: () => Promise<Client>;
  log: Logger;
  /** Ends the run; another goes on where it was. */
  signal: AbortSignal;
};

const INSUFFICIENT_PRIVILEGE = '42501';

/**
 * Archives what nothing needs in the log any more, where an archive is wanted. What goes wrong is
 * told and left to the next run: a log that can't be archived stays whole and serves on.
 */
export async function archiveTask({ config, connect, log, signal }: ArchiveTaskOptions): Promise<void> {
  const { ARCHIVE_DIR: directory, ARCHIVE_KEEP_PARTITIONS: keep, ARCHIVE_DROP } = config;
  if (directory === undefined) return;
  try {
    const result = await archive({ connect, directory, keep, drop: ARCHIVE_DROP === 'on', signal });
    if (result === null) return;
    const { archived, detached, dropped, waiting } = result;
    if (archived.length + detached.length + dropped.length > 0)
      log.info({ archived, detached, dropped }, 'parts of the log were archived');
    if (waiting !== null) log.debug({ waiting }, 'the archive waits');
  } catch (error) {
    if (signal.aborted) return;
    if (error instanceof ArchiveDamageError) {
      log.error(
        { position: error.position, problem: error.message },
        'the log or its archive is damaged: nothing of that part leaves the database',
      );
    } else if (error instanceof StoreError)
      log.error({ problem: error.message }, 'the archive is not usable');
    else if (error instanceof DatabaseError && error.code === INSUFFICIENT_PRIVILEGE) {
      log.error(
        "this worker's login does not own the log and can't take a part out of it: run `daybook archive run` with the owner's",
      );
    } else log.error(errorFields(error), 'archiving failed; it is tried again');
  }
}
