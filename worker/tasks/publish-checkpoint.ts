import type { Client, ClientBase } from 'pg';
import { closeClient, StoreError } from '#db/postgres/connect.ts';
import { SHARD } from '#db/log/append.ts';
import { publishCheckpoint } from '#db/tlog/publish.ts';
import { publishDirectory } from '#db/tlog/published.ts';
import { signingKeyFile } from '#db/tlog/signing-key.ts';
import type { WorkerConfig } from '../config.ts';
import type { InstanceSession } from '#db/instances/instance-session.ts';
import { errorFields, type Logger } from '../logger.ts';

/** The first checkpoint of a long log reads all of it, page by page; this is for one page. */
export const PUBLISH_TIMEOUT_MS = 60_000;

/**
 * What is not published yet can be cut off without anybody knowing: never more than ten seconds of it.
 * A look may come two seconds late, since the queue finds what is due later by polling, and signing takes its
 * time.
 */
const AGE_MAX_MS = 6_000;
/** Nor much more than so many events. */
const EVENTS_MAX = 1_000;
const LOOK_MS = 1_000;
/** What an operator has to put right is said this often. */
const AFTER_FAULT_MS = 10_000;
/**
 * What a worker that ends may take for its last one; the first checkpoint of a long log is left to the next
 * worker.
 */
const LAST_MS_MAX = 3_000;

type Publisher = {
  config: WorkerConfig;
  log: Logger;
  session: InstanceSession;
  connect: () => Promise<Client>;
};

type PublishTask = Publisher & { look: <T>(work: (client: ClientBase) => Promise<T>) => Promise<T> };

/** How much of the log no checkpoint covers, and for how long the oldest of it has been there. */
const READ_UNPUBLISHED = `select daybook.head($1)::float8 - p.size as events,
    extract(epoch from clock_timestamp() - (select at from daybook.log_batch where shard = $1 and last_position > p.size order by last_position limit 1))::float8 * 1000 as age_ms
  from (select coalesce((select size from daybook.checkpoint where shard = $1 order by epoch desc, size desc limit 1), 0)::float8 as size) p`;

/**
 * Publishes a checkpoint when it is time for one.
 * @returns in how many milliseconds to look again.
 */
export async function publishTask({ config, log, session, look, connect }: PublishTask): Promise<number> {
  const { rows } = await look((client) =>
    client.query<{ events: number; age_ms: number | null }>(READ_UNPUBLISHED, [SHARD]),
  );
  const { events, age_ms } = rows[0] as (typeof rows)[number];
  // After a restore there may be more checkpoints than log: then, too, it is looked at.
  if (events === 0 || (events > 0 && events < EVENTS_MAX && (age_ms ?? 0) < AGE_MAX_MS)) return LOOK_MS;
  const client = await connect();
  try {
    await publish(client, { config, session });
    return LOOK_MS;
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    log.error({ fault: error.message }, 'no checkpoint is published');
    return AFTER_FAULT_MS;
  } finally {
    await closeClient(client);
  }
}

/**
 * Publishes what no checkpoint covers, as a worker ends: where it is the last, nothing can be cut off
 * afterwards without anybody knowing. What can't be done in time is left.
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
    log.warn(errorFields(error), 'the newest events are in no checkpoint; the next worker publishes them');
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
