import type { Client } from 'pg';
import type { EventOf, Placed } from '#db/events/events.ts';
import { registerInstance } from '#db/instances/instance.ts';
import { readHead } from '#db/log/read.ts';
import { connectRelay } from '#db/postgres/store.ts';
import { Appender, type AppenderOptions, StoreUnavailable } from '#server/instance/appender.ts';
import type { TestDatabase } from '../database.ts';
import { connectAs } from './log-writer.ts';

type Accepted = EventOf<'request.accepted'>;

/** An appender on a real database, with what it reports. */
export type Appending = AsyncDisposable & {
  appender: Appender;
  instance: number;
  problems: string[];
  /** How often it was told that its instance is dead. */
  fencings: () => number;
  /** Somebody who looks at the sessions of the appender and does to them what happens to sessions. */
  superuser: Client;
};

/** How long a closing appender of a test may take to write the rest. */
const GRACE_MS = 10_000;

export async function openAppender(
  database: TestDatabase,
  options: Partial<AppenderOptions> = {},
): Promise<Appending> {
  const registrar = await connectAs(database, 'relay');
  const instance = await registerInstance(registrar, 'appender');
  const head = await readHead(registrar);
  await registrar.end();
  const superuser = await database.superuser();
  const problems: string[] = [];
  let fencings = 0;
  const appender = new Appender({
    connect: () => connectRelay(database),
    instance,
    head,
    onFenced: () => {
      fencings++;
    },
    onError: (problem) => problems.push(problem),
    ...options,
  });
  return {
    appender,
    instance,
    problems,
    fencings: () => fencings,
    superuser,
    async [Symbol.asyncDispose]() {
      await appender.close(GRACE_MS);
      await superuser.end();
    },
  };
}

/** The processes of the appender's sessions. */
export async function backends(superuser: Client): Promise<number[]> {
  const { rows } = await superuser.query<{ pid: number }>(
    `select pid from pg_stat_activity
      where application_name = 'daybook-relay' and datname = current_database()`,
  );
  return rows.map(({ pid }) => pid);
}

/** What came of an accepted event: durable, in doubt, or refused and never to be written. */
export type Outcome = 'durable' | 'in doubt' | 'refused';

/** Hands an event in and says what came of it. */
export async function outcomeOf(appender: Appender, event: Accepted): Promise<Outcome> {
  try {
    await appender.accept(event);
    return 'durable';
  } catch (error) {
    if (!(error instanceof StoreUnavailable)) throw error;
    return error.pending ? 'in doubt' : 'refused';
  }
}

/** How often each request was accepted and settled in a log. */
export function tally(log: readonly Placed[]): Map<string, { accepted: number; settled: number }> {
  const counts = new Map<string, { accepted: number; settled: number }>();
  for (const { event } of log) {
    if (event.type !== 'request.accepted' && event.type !== 'request.settled') continue;
    const count = counts.get(event.request) ?? { accepted: 0, settled: 0 };
    if (event.type === 'request.accepted') count.accepted++;
    else count.settled++;
    counts.set(event.request, count);
  }
  return counts;
}
