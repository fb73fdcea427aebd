import { type Client, DatabaseError } from 'pg';
import { Option } from 'commander';
import { asAuditor } from '#db/audit/commands/auditor.ts';
import { fileSource } from '#db/audit/source/files.ts';
import { Progress } from '#db/audit/commands/progress.ts';
import type { Source } from '#db/audit/source/source.ts';
import { fullLogSource } from '#db/audit/source/full-log.ts';
import type { Command } from '#db/command-line/command.ts';
import { StoreError } from '#db/postgres/connect.ts';
import type { LOG_READINGS } from '#db/events/log-events.ts';
import { explainAppendError } from '#db/log/occupied-position.ts';
import { type LogRange, type Read, readEvents } from '#db/log/read.ts';

/** The actor of a reading: the database login, or a placeholder for a login that isn't a valid actor name. */
const ACTOR = `case when session_user::text collate "C" ~ '^[A-Za-z0-9._-]{1,63}$' then 'login/' ||
  session_user else 'command-line' end`;
/** SQLSTATE of a write on a replica. */
const READ_ONLY = '25006';

/** The options that select where events are read from. */
export type SourceOptions = { files?: string[]; archiveDir?: string };

/** Adds the options that select where events are read from. */
export function withSourceOptions(command: Command): Command {
  return command
    .option('--files <files...>', 'read exported files instead of the database')
    .addOption(
      new Option('--archive-dir <directory>', 'directory with the files of archived partitions').env(
        'ARCHIVE_DIR',
      ),
    );
}

/** Runs a command on the selected events; `client` is null when they come from files. */
export async function onSource(
  command: Command,
  { files, archiveDir }: SourceOptions,
  work: (source: Source, client: Client | null) => Promise<void>,
): Promise<void> {
  if (files !== undefined) return work(await fileSource(files), null);
  await asAuditor(command, async (client) => work(await fullLogSource(client, archiveDir), client));
}

/**
 * Records in the log that it is read. On a replica that is impossible, and a warning is printed.
 * @throws {OccupiedPositionError} when nothing can be appended to the log.
 */
export async function recordReading(
  { surroundings }: Command,
  client: Client | null,
  what: (typeof LOG_READINGS)[number],
  { after, upTo }: LogRange,
): Promise<void> {
  if (client === null) return;
  try {
    await client.query(`select daybook.record_reading(${ACTOR}, $1, $2, $3)`, [what, after + 1, upTo]);
  } catch (error) {
    if (!(error instanceof DatabaseError) || error.code !== READ_ONLY) throw explainAppendError(error);
    surroundings.err('daybook: this is a replica, so this read is not recorded in the log\n');
  }
}

/**
 * Feeds the events of a range to a fold, and shows progress.
 * @param take returns false to stop.
 * @returns the number of events taken, and the rate.
 */
export async function foldPart(
  command: Command,
  source: Source,
  part: LogRange,
  what: string,
  take: (read: Read) => boolean,
): Promise<Progress['figures']> {
  const progress = new Progress(command, what, Math.min(part.upTo, source.head) - part.after);
  try {
    for await (const batches of source.read(part)) {
      for (const batch of batches) {
        const events = readEvents(batch, part);
        const end = events.findIndex((read) => !take(read));
        progress.add(end < 0 ? events.length : end);
        if (end >= 0) return progress.figures;
      }
    }
    return progress.figures;
  } finally {
    progress.end();
  }
}

/** Parses `--at`: a position or a point in time. @throws {StoreError} when it is neither. */
export function parseAt(text: string): number | Date {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  const isDated = /^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,3})?)?)?(Z|[+-]\d\d:\d\d)?$/.test(text);
  // A time without a zone is UTC, like every time in the log.
  const moment = new Date(
    /Z$|[+-]\d\d:\d\d$/.test(text) || !/\d\d:\d\d/.test(text) ? text : `${text.replace(' ', 'T')}Z`,
  );
  if (!isDated || Number.isNaN(moment.getTime()))
    throw new StoreError(`"${text}" is neither a position nor a time such as 2026-11-22T06:00:00Z`);
  return moment;
}
