import type { Client } from 'pg';
import { sql } from 'kysely';
import {
  OUTSIDE_CHECK_MS,
  OUTSIDE_IDLE_MAX_MS,
  OUTSIDE_TRANSACTION_MAX_MS,
  OUTSIDE_WAIT_MAX_MS,
} from '#db/bounds.ts';
import { closeClient } from '#db/postgres/connect.ts';
import { db, type Queryable, rowsOf } from '#db/schema/query.ts';
import type { Functions } from '#db/schema/tables.ts';

/** A session of a login that is not Daybook's own, such as an auditor's. */
export type OutsideSession = {
  login: string;
  reason: 'blocking' | 'idle in a transaction' | 'a long transaction';
  /** False if the owner of the database lacks the privilege. */
  isEnded: boolean;
};

/** Ends the sessions of outside logins that block Daybook's own, or keep a transaction open for too long. */
export function endOutsideSessions(client: Queryable): Promise<OutsideSession[]> {
  return rowsOf(
    client,
    db
      .selectFrom(
        sql<Functions['daybook.end_outside_sessions']>`daybook.end_outside_sessions(
          ${OUTSIDE_WAIT_MAX_MS}, ${OUTSIDE_IDLE_MAX_MS}, ${OUTSIDE_TRANSACTION_MAX_MS})`.as('ended'),
      )
      .select(['login', 'is_ended as isEnded'])
      .select(({ ref }) => ref('reason').$castTo<OutsideSession['reason']>().as('reason')),
    'end_outside_sessions',
  );
}

export type OutsideWatchOptions = {
  connect: () => Promise<Client>;
  onSession: (session: OutsideSession) => void;
};

/**
 * Does so once a second, over a connection of its own, since the others may be among those that wait. Every
 * process does: any of them may be the one that still can. Failures are left to the next check: the
 * heartbeats report an unreachable database.
 * @returns a function that stops it, and resolves when its connection is closed.
 */
export function watchOutsideSessions({ connect, onSession }: OutsideWatchOptions): () => Promise<void> {
  let client: Client | undefined;
  let timer: NodeJS.Timeout | undefined;
  let isClosed = false;

  async function check(): Promise<void> {
    try {
      client ??= await connect();
      for (const session of await endOutsideSessions(client)) onSession(session);
    } catch {
      const failed = client;
      client = undefined;
      if (failed) void closeClient(failed);
    }
    if (isClosed) return;
    timer = setTimeout(() => {
      inFlight = check();
    }, OUTSIDE_CHECK_MS);
  }

  let inFlight = check();
  return async () => {
    isClosed = true;
    clearTimeout(timer);
    await inFlight;
    if (client) await closeClient(client);
  };
}

/** The fields and the text of its log line. */
export function outsideSessionLine({ login, reason, isEnded }: OutsideSession): [object, string] {
  return isEnded
    ? [{ login, reason }, 'database session of an outside login ended']
    : [
        { login, reason },
        "database session of an outside login can't be ended: grant pg_signal_backend to the owner",
      ];
}
