import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import type { Role } from '#db/events/parts.ts';
import { takeLock } from '#db/postgres/locks.ts';
import { countOf, db, rowOf, rowsOf, type Queryable } from '#db/schema/query.ts';

/** Single-use links: the only queries on `daybook.link`. */

/** How long each kind is valid. A setup or reset link is awaited; an invitation has to be read first. */
const LIFE_MS = { setup: 60 * 60 * 1000, invitation: 24 * 60 * 60 * 1000, reset: 60 * 60 * 1000 } as const;
export type LinkKind = keyof typeof LIFE_MS;

/** What a link allows its holder. */
export type Purpose =
  | { kind: 'setup' }
  | { kind: 'invitation'; account: string | null; role: Role }
  | { kind: 'reset'; member: string };

export type Invitation = { id: string; account: string | null; role: Role; createdAt: Date; expiresAt: Date };

const NOW = sql<Date>`statement_timestamp()`;

/** Whether a setup link is valid. */
export async function hasSetupLink(client: Queryable): Promise<boolean> {
  const query = db
    .selectFrom('daybook.link')
    .select('id')
    .where('kind', '=', 'setup')
    .where('expires_at', '>', NOW)
    .limit(1);
  return (await rowOf(client, query)) !== undefined;
}

/**
 * @param madeBy the administrator with whose rights the link ends; null: it ends by itself only.
 * @returns when it expires.
 */
export async function insertLink(
  client: ClientBase,
  id: string,
  digest: Buffer,
  purpose: Purpose,
  madeBy: string | null,
): Promise<Date> {
  const row = await rowOf(
    client,
    db
      .insertInto('daybook.link')
      .values({
        id,
        kind: purpose.kind,
        digest,
        account: purpose.kind === 'invitation' ? purpose.account : null,
        role: purpose.kind === 'invitation' ? purpose.role : null,
        member: purpose.kind === 'reset' ? purpose.member : null,
        made_by: madeBy,
        expires_at: sql<Date>`statement_timestamp() + ${LIFE_MS[purpose.kind]} * interval '1 millisecond'`,
      })
      .returning('expires_at'),
  );
  if (row === undefined) throw new Error('an insert without a conflict clause returned no row');
  return row.expires_at;
}

/** Deletes the links that have expired. */
export async function deleteExpiredLinks(client: Queryable): Promise<void> {
  await countOf(client, db.deleteFrom('daybook.link').where('expires_at', '<=', NOW));
}

/** Reads a valid invitation without using it; null if no valid one has this digest. */
export async function readInvitation(client: Queryable, digest: Buffer): Promise<Invitation | null> {
  return (await rowOf(client, openInvitations.where('digest', '=', digest))) ?? null;
}

/** Reads a valid link without using it: an invalid one must not cause any costly work. */
export async function findLink(
  client: Queryable,
  kind: LinkKind,
  digest: Buffer,
): Promise<{ member: string | null } | null> {
  const query = db
    .selectFrom('daybook.link')
    .select('member')
    .where('digest', '=', digest)
    .where('kind', '=', kind)
    .where('expires_at', '>', NOW);
  return (await rowOf(client, query)) ?? null;
}

/** Uses a link: one of several concurrent callers gets it. Null for the others, and if it has expired. */
export async function consumeLink(
  client: ClientBase,
  kind: LinkKind,
  digest: Buffer,
): Promise<{ id: string; account: string | null; role: Role | null; member: string | null } | null> {
  const query = db
    .deleteFrom('daybook.link')
    .where('digest', '=', digest)
    .where('kind', '=', kind)
    .where('expires_at', '>', NOW)
    .returning(['id', 'account', 'role', 'member']);
  return (await rowOf(client, query)) ?? null;
}

/** Withdraws all links of a kind: setup links after one was used, or the resets of a member. */
export async function deleteLinks(
  client: ClientBase,
  kind: 'setup' | 'reset',
  member: string | null = null,
): Promise<void> {
  let query = db.deleteFrom('daybook.link').where('kind', '=', kind);
  if (member !== null) query = query.where('member', '=', member);
  await countOf(client, query);
}

/**
 * Withdraws the links that a member created. @returns the ids of those invitations that were still valid.
 */
export async function deleteLinksMadeBy(client: ClientBase, member: string): Promise<string[]> {
  const rows = await rowsOf(
    client,
    db
      .deleteFrom('daybook.link')
      .where('made_by', '=', member)
      .returning((eb) => [
        'id',
        eb.and([eb('kind', '=', 'invitation'), eb('expires_at', '>', NOW)]).as('isOpen'),
      ]),
  );
  return rows.flatMap(({ id, isOpen }) => (isOpen ? [id] : []));
}

/** @returns whether the invitation existed. */
export async function deleteInvitation(client: ClientBase, id: string): Promise<boolean> {
  const query = db.deleteFrom('daybook.link').where('id', '=', id).where('kind', '=', 'invitation');
  return (await countOf(client, query)) === 1;
}

const openInvitations = db
  .selectFrom('daybook.link')
  .select(['id', 'account', 'created_at as createdAt', 'expires_at as expiresAt'])
  // A check constraint of the table gives every invitation a role.
  .select((eb) => eb.ref('role').$notNull().as('role'))
  .where('kind', '=', 'invitation')
  .where('expires_at', '>', NOW);

/** The open invitations, newest first, at most `max`. */
export async function listInvitations(
  client: Queryable,
  max: number,
): Promise<{ invitations: Invitation[]; omitted: number }> {
  const query = openInvitations.orderBy('created_at', 'desc').orderBy('id').limit(max);
  const invitations = await rowsOf(client, query);
  const counted = await rowOf(
    client,
    db.selectFrom(openInvitations.as('open')).select(sql<number>`count(*)::int`.as('count')),
  );
  return { invitations, omitted: Math.max(0, (counted?.count ?? 0) - invitations.length) };
}

/** Serializes the creation of the first administrator until the transaction ends. */
export async function lockSetup(client: ClientBase): Promise<void> {
  await client.query(takeLock('setup'));
}
