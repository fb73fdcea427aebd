import type { ClientBase } from 'pg';

/**
 * Dashboard sign-ins: the only SQL on `daybook.session`. A row that is gone has ended, on every server at
 * once.
 */

/** Signed out by itself after half a day without a request: a night passes, a day's work does not end. */
const SESSION_IDLE_MS = 12 * 60 * 60 * 1000;
/** Signed out in any case after this; a stolen cookie does not last for ever. */
export const SESSION_MAX_MS = 30 * 24 * 60 * 60 * 1000;
/** Sessions of one member; opening another ends the one that was seen least lately. */
const SESSIONS_PER_MEMBER_MAX = 100;
/** How exact "seen" is: more writes would say nothing more. */
const SEEN_EVERY_MS = 60_000;

export type SessionSeen = {
  id: string;
  openedAt: Date;
  seenAt: Date;
  expiresAt: Date;
  browser: string;
  network: string;
};
export type OpenSession = { id: string; member: string; isSeenLate: boolean };

const IS_OPEN = `expires_at > clock_timestamp() and seen_at > clock_timestamp() - interval '${SESSION_IDLE_MS} milliseconds'`;

/** The session with this digest of its token, while it is good. */
export async function findOpenSession(
  client: Pick<ClientBase, 'query'>,
  digest: Buffer,
): Promise<OpenSession | null> {
  const { rows } = await client.query<OpenSession>({
    name: 'find_session',
    text: `select id, member, seen_at < clock_timestamp() - interval '${SEEN_EVERY_MS} milliseconds' as "isSeenLate"
      from daybook.session where digest = $1 and ${IS_OPEN}`,
    values: [digest],
  });
  return rows[0] ?? null;
}

export async function touchSession(client: Pick<ClientBase, 'query'>, id: string): Promise<void> {
  await client.query('update daybook.session set seen_at = clock_timestamp() where id = $1', [id]);
}

export async function insertSession(
  client: ClientBase,
  session: { id: string; member: string; digest: Buffer; browser: string; network: string },
): Promise<void> {
  await client.query(
    `insert into daybook.session (id, member, digest, expires_at, browser, network)
      values ($1, $2, $3, clock_timestamp() + interval '${SESSION_MAX_MS} milliseconds', $4, $5)`,
    [session.id, session.member, session.digest, session.browser, session.network],
  );
}

/**
 * Takes away what has ended by itself, of all members; what somebody else has taken hold of is left for the
 * next time.
 */
export async function deleteExpiredSessions(client: Pick<ClientBase, 'query'>): Promise<void> {
  await client.query(
    `delete from daybook.session where id in (select id from daybook.session where not (${IS_OPEN}) for update skip locked)`,
  );
}

/**
 * Takes away what has ended by itself, and all beyond the bound. @returns the ids of those that were good
 * until now.
 */
export async function pruneSessions(client: ClientBase, member: string): Promise<string[]> {
  await client.query(`delete from daybook.session where member = $1 and not (${IS_OPEN})`, [member]);
  const { rows } = await client.query<{ id: string }>(
    `delete from daybook.session where id in
      (select id from daybook.session where member = $1 order by seen_at desc, id offset $2) returning id`,
    [member, SESSIONS_PER_MEMBER_MAX - 1],
  );
  return rows.map(({ id }) => id);
}

/** The open sessions of a member, the newest first. */
export async function listSessions(
  client: Pick<ClientBase, 'query'>,
  member: string,
): Promise<SessionSeen[]> {
  const { rows } = await client.query<SessionSeen>(
    `select id, opened_at as "openedAt", seen_at as "seenAt",
        least(expires_at, seen_at + interval '${SESSION_IDLE_MS} milliseconds') as "expiresAt", browser, network
      from daybook.session where member = $1 and ${IS_OPEN} order by opened_at desc, id`,
    [member],
  );
  return rows;
}

/** When each of these members was last seen in a session that is still open. */
export async function lastSeen(
  client: Pick<ClientBase, 'query'>,
  members: readonly string[],
): Promise<Map<string, Date>> {
  const { rows } = await client.query<{ member: string; at: Date }>(
    'select member, max(seen_at) as at from daybook.session where member = any($1) group by member',
    [members],
  );
  return new Map(rows.map(({ member, at }) => [member, at]));
}

/** Ends one of a member's sessions. @returns whether it was there. */
export async function deleteSession(client: ClientBase, member: string, id: string): Promise<boolean> {
  return (
    (await client.query('delete from daybook.session where id = $1 and member = $2', [id, member]))
      .rowCount === 1
  );
}

/** Ends all of a member's sessions but one. @returns the ids of those that ended. */
export async function deleteSessions(
  client: ClientBase,
  member: string,
  except: string | null,
): Promise<string[]> {
  const { rows } = await client.query<{ id: string }>(
    'delete from daybook.session where member = $1 and id is distinct from $2 returning id',
    [member, except],
  );
  return rows.map(({ id }) => id);
}
