import { sql } from 'kysely';
import type { Client, ClientBase } from 'pg';
import { closeClient, StoreError } from '#db/postgres/connect.ts';
import { SHARD } from '#db/log/append.ts';
import { db, onlyRowOf } from '#db/schema/query.ts';
import { selectNewestCheckpoint } from '#db/tlog/checkpoint-store.ts';
import { publishCheckpoint } from '#db/tlog/publish.ts';
import { publishDirectory } from '#db/tlog/publish-directory.ts';
import { signingKeyFile } from '#db/tlog/signing-key.ts';
import type { WorkerConfig } from '#db/configuration/worker-config.ts';
import type { InstanceSession } from '#db/instances/instance-session.ts';
import type { Logger } from '#db/diagnostics/logger.ts';
import { errorFields } from '#db/diagnostics/error-fields.ts';

/** For a page: the first checkpoint of a long log reads the whole log, page by page. */
export const PUBLISH_TIMEOUT_MS = 60_000;

/**
 * Events without a published checkpoint can be truncated without detection, so none may stay unpublished
 * for more than ten seconds. A look may be a second late, and signing takes time.
 */
const AGE_MAX_MS = 6_000;
/** Nor may many more events than these stay unpublished. */
const EVENTS_MAX = 1_000;
const LOOK_MS = 1_000;
/** For the last checkpoint of an ending worker. The first one of a long log is left to the next worker. */
const LAST_MS_MAX = 3_000;

type Publisher = {
  config: WorkerConfig;
  log: Logger;
  session: InstanceSession;
  connect: () => Promise<Client>;
};

type PublishTask = Publisher & { look: <T>(work: (client: ClientBase) => Promise<T>) => Promise<T> };

/** The number of events without a checkpoint, and the age of the oldest one. */
export function unpublished() {
  const newest = selectNewestCheckpoint().select('size');
  return db.selectFrom(db.selectNoFrom(sql<string>`coalesce(${newest}, 0)`.as('size')).as('p')).select([
    sql<number>`(daybook.head(${SHARD}) - p.size)::float8`.as('events'),
    sql<number | null>`extract(epoch from clock_timestamp() - (select at from daybook.log_batch
        where shard = ${SHARD} and last_position > p.size
        order by last_position limit 1))::float8 * 1000`.as('age_ms'),
  ]);
}

/**
 * Publishes a checkpoint when one is due.
 * @returns the milliseconds until the next check.
 * @throws the error; one that needs an operator has a log line of its own.
 */
export async function publishTask({ config, log, session, look, connect }: PublishTask): Promise<number> {
  const { events, age_ms } = await look((client) => onlyRowOf(client, unpublished()));
  // After a restore a checkpoint may be larger than the log, which publishing reports.
  if (events === 0 || (events > 0 && events < EVENTS_MAX && (age_ms ?? 0) < AGE_MAX_MS)) return LOOK_MS;
  const client = await connect();
  try {
    await publish(client, { config, session });
    return LOOK_MS;
  } catch (error) {
    if (error instanceof StoreError) log.error({ fault: error.message }, 'checkpoint not published');
    throw error;
  } finally {
    await closeClient(client);
  }
}

/**
 * Publishes a last checkpoint as a worker ends: with no worker left, events without a checkpoint could
 * be truncated without detection. It gives up after {@link LAST_MS_MAX}.
 */
export async function publishLast({ config, log, session, connect }: Publisher): Promise<void> {
  try {
    const client = await connect();
    const tooLong = setTimeout(() => client.connection.stream.destroy(), LAST_MS_MAX);
    try {
      await publish(client, { config, session });
    } finally {
      clearTimeout(tooLong);
      await closeClient(client);
    }
  } catch (error) {
    log.warn(errorFields(error), 'last checkpoint not published; left to the next worker');
  }
}

function publish(
  client: Client,
  { config, session }: Pick<Publisher, 'config' | 'session'>,
): Promise<unknown> {
  const writer = { instance: session.instance, nextBatchNo: () => session.nextBatchNo() };
  return publishCheckpoint(client, {
    keyFile: signingKeyFile(config),
    directory: publishDirectory(config),
    writer,
  });
}
