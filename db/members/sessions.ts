import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import { countOf, db, rowOf, rowsOf, type Queryable } from '#db/schema/query.ts';

/** Dashboard sessions: the only queries on `daybook.session`. Deleting a row ends it on every server. */

/** A session ends after half a day without a request: a night suffices, a working day does not. */
const SESSION_IDLE_MS = 12 * 60 * 60 * 1000;
/** A session ends in any case after this; a stolen cookie does not last forever. */
export const SESSION_MAX_MS = 30 * 24 * 60 * 60 * 1000;
/** Sessions of one member; opening another ends the least recently seen one. */
const SESSIONS_PER_MEMBER_MAX = 100;
/** The precision of `seen_at`: more writes would add nothing. */
const SEEN_EVERY_MS = 60_000;

export type SessionSeen = {
  id: string;
  openedAt: Date;
  seenAt: Date;
  expiresAt: Date;
  browser: string;
  network: string;
};
export type SessionToOpen = {
  id: string;
  member: string;
  digest: Buffer;
  browser: string;
  network: string;
  /** It ends after this, however it is used. */
  maxMs: number;
};
export type OpenSession = { id: string; member: string; isSeenLate: boolean };

const milliseconds = (ms: number) => sql<Date>`${sql.lit(ms)} * interval '1 millisecond'`;
const NOW = sql<Date>`statement_timestamp()`;
const IS_OPEN = sql<boolean>`(expires_at > ${NOW} and seen_at > ${NOW} - ${milliseconds(SESSION_IDLE_MS)})`;

/** The open session with this digest of its token. */
export async function findOpenSession(client: Queryable, digest: Buffer): Promise<OpenSession | null> {
  const query = db
    .selectFrom('daybook.session')
    .select(['id', 'member'])
    .select(sql<boolean>`seen_at < ${NOW} - ${milliseconds(SEEN_EVERY_MS)}`.as('isSeenLate'))
    .where('digest', '=', digest)
    .where(IS_OPEN);
  return (await rowOf(client, query, 'find_session')) ?? null;
}

export async function touchSession(client: Queryable, id: string): Promise<void> {
  await countOf(client, db.updateTable('daybook.session').set({ seen_at: NOW }).where('id', '=', id));
}

export async function insertSession(client: ClientBase, { maxMs, ...session }: SessionToOpen): Promise<void> {
  const expires_at = sql<Date>`${NOW} + ${milliseconds(maxMs)}`;
  await countOf(client, db.insertInto('daybook.session').values({ ...session, expires_at }));
}

/** Deletes the expired sessions of all members. Rows locked by another transaction wait for the next call. */
export async function deleteExpiredSessions(client: Queryable): Promise<void> {
  const expired = db
    .selectFrom('daybook.session')
    .select('id')
    .where((eb) => eb.not(IS_OPEN))
    .forUpdate()
    .skipLocked();
  await countOf(client, db.deleteFrom('daybook.session').where('id', 'in', expired));
}

/**
 * Deletes a member's expired sessions, and the least recently seen ones beyond the maximum.
 * @returns the ids of the latter, which were open until now.
 */
export async function pruneSessions(client: ClientBase, member: string): Promise<string[]> {
  const own = db.deleteFrom('daybook.session').where('member', '=', member);
  await countOf(
    client,
    own.where((eb) => eb.not(IS_OPEN)),
  );
  const surplus = db
    .selectFrom('daybook.session')
    .select('id')
    .where('member', '=', member)
    .orderBy('seen_at', 'desc')
    .orderBy('id')
    .offset(SESSIONS_PER_MEMBER_MAX - 1);
  const rows = await rowsOf(
    client,
    db.deleteFrom('daybook.session').where('id', 'in', surplus).returning('id'),
  );
  return rows.map(({ id }) => id);
}

/** The open sessions of a member, newest first. */
export async function listSessions(client: Queryable, member: string): Promise<SessionSeen[]> {
  const idleEnd = sql`seen_at + ${milliseconds(SESSION_IDLE_MS)}`;
  return rowsOf(
    client,
    db
      .selectFrom('daybook.session')
      .select(['id', 'opened_at as openedAt', 'seen_at as seenAt', 'browser', 'network'])
      .select(sql<Date>`least(expires_at, ${idleEnd})`.as('expiresAt'))
      .where('member', '=', member)
      .where(IS_OPEN)
      .orderBy('opened_at', 'desc')
      .orderBy('id'),
  );
}

/** The last time each of these members was seen, in a session that still has a row. */
export async function lastSeen(client: Queryable, members: readonly string[]): Promise<Map<string, Date>> {
  const rows = await rowsOf(
    client,
    db
      .selectFrom('daybook.session')
      .select((eb) => ['member', eb.fn.max('seen_at').as('at')])
      .where((eb) => eb('member', '=', eb.fn.any(sql.val(members))))
      .groupBy('member'),
  );
  return new Map(rows.map(({ member, at }) => [member, at]));
}

/** Ends one of a member's sessions. @returns whether it existed. */
export async function deleteSession(client: ClientBase, member: string, id: string): Promise<boolean> {
  const query = db.deleteFrom('daybook.session').where('id', '=', id).where('member', '=', member);
  return (await countOf(client, query)) === 1;
}

/** Ends all of a member's sessions except one. @returns the ids of those that ended. */
export async function deleteSessions(
  client: ClientBase,
  member: string,
  except: string | null,
): Promise<string[]> {
  let query = db.deleteFrom('daybook.session').where('member', '=', member).returning('id');
  if (except !== null) query = query.where('id', '<>', except);
  return (await rowsOf(client, query)).map(({ id }) => id);
}
