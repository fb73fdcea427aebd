import type { ClientBase } from 'pg';
import type { Role } from '#db/events/parts.ts';
import { LOCKS } from '#db/postgres/locks.ts';

/** Links that let somebody in once: the only SQL on `daybook.link`. */

/**
 * How long each kind is good. Setup and reset links are used by whoever waits for them; an invitation has to
 * be read first.
 */
const LIFE_MS = { setup: 60 * 60 * 1000, invitation: 24 * 60 * 60 * 1000, reset: 60 * 60 * 1000 } as const;
export type LinkKind = keyof typeof LIFE_MS;

/** What a link is for. */
export type Purpose =
  | { kind: 'setup' }
  | { kind: 'invitation'; account: string | null; role: Role }
  | { kind: 'reset'; member: string };

export type Invitation = { id: string; account: string | null; role: Role; createdAt: Date; expiresAt: Date };

/**
 * @param madeBy the administrator with whose rights it ends; null: nobody's.
 * @returns when it ends.
 */
export async function insertLink(
  client: ClientBase,
  id: string,
  digest: Buffer,
  purpose: Purpose,
  madeBy: string | null,
): Promise<Date> {
  const { rows } = await client.query<{ expires_at: Date }>(
    `insert into daybook.link (id, kind, digest, account, role, member, made_by, expires_at)
      values ($1, $2, $3, $4, $5, $6, $7, clock_timestamp() + $8 * interval '1 millisecond') returning expires_at`,
    [
      id,
      purpose.kind,
      digest,
      purpose.kind === 'invitation' ? purpose.account : null,
      purpose.kind === 'invitation' ? purpose.role : null,
      purpose.kind === 'reset' ? purpose.member : null,
      madeBy,
      LIFE_MS[purpose.kind],
    ],
  );
  return (rows[0] as { expires_at: Date }).expires_at;
}

/** Takes away what has ended by itself. */
export async function deleteExpiredLinks(client: Pick<ClientBase, 'query'>): Promise<void> {
  await client.query('delete from daybook.link where expires_at <= clock_timestamp()');
}

/** What a link would let its holder do, without using it. */
export async function readInvitation(
  client: Pick<ClientBase, 'query'>,
  digest: Buffer,
): Promise<Invitation | null> {
  const { rows } = await client.query<Invitation>(`${INVITATIONS} and digest = $1`, [digest]);
  return rows[0] ?? null;
}

/** A link that is good, without using it: nothing costly is done for one that is not. */
export async function findLink(
  client: Pick<ClientBase, 'query'>,
  kind: LinkKind,
  digest: Buffer,
): Promise<{ member: string | null } | null> {
  const { rows } = await client.query<{ member: string | null }>(
    'select member from daybook.link where digest = $1 and kind = $2 and expires_at > clock_timestamp()',
    [digest, kind],
  );
  return rows[0] ?? null;
}

/** Uses a link up: of many who try at once one gets it. Null for the others, and when it has ended. */
export async function consumeLink(
  client: ClientBase,
  kind: LinkKind,
  digest: Buffer,
): Promise<{ id: string; account: string | null; role: Role | null; member: string | null } | null> {
  const { rows } = await client.query<{
    id: string;
    account: string | null;
    role: Role | null;
    member: string | null;
  }>(
    'delete from daybook.link where digest = $1 and kind = $2 and expires_at > clock_timestamp() returning id, account, role, member',
    [digest, kind],
  );
  return rows[0] ?? null;
}

/** Withdraws all links of a kind: setup links when somebody has used one, a member's resets. */
export async function deleteLinks(
  client: ClientBase,
  kind: 'setup' | 'reset',
  member: string | null = null,
): Promise<void> {
  await client.query('delete from daybook.link where kind = $1 and ($2::text is null or member = $2)', [
    kind,
    member,
  ]);
}

/**
 * Withdraws what somebody has made for others. @returns the invitations among them, which were good until
 * now.
 */
export async function deleteLinksMadeBy(client: ClientBase, member: string): Promise<string[]> {
  const { rows } = await client.query<{ id: string; isOpen: boolean }>(
    `delete from daybook.link where made_by = $1 returning id, kind = 'invitation' and expires_at > clock_timestamp() as "isOpen"`,
    [member],
  );
  return rows.flatMap(({ id, isOpen }) => (isOpen ? [id] : []));
}

/** @returns whether there was such an invitation. */
export async function deleteInvitation(client: ClientBase, id: string): Promise<boolean> {
  return (
    (await client.query("delete from daybook.link where id = $1 and kind = 'invitation'", [id])).rowCount ===
    1
  );
}

const INVITATIONS = `select id, account, role, created_at as "createdAt", expires_at as "expiresAt"
  from daybook.link where kind = 'invitation' and expires_at > clock_timestamp()`;

/** The open invitations, the newest first: as many as `max`. */
export async function listInvitations(
  client: Pick<ClientBase, 'query'>,
  max: number,
): Promise<{ invitations: Invitation[]; omitted: number }> {
  const { rows } = await client.query<Invitation>(`${INVITATIONS} order by created_at desc, id limit $1`, [
    max,
  ]);
  const { rows: counted } = await client.query<{ count: number }>(
    `select count(*)::int as count from (${INVITATIONS}) open`,
  );
  return { invitations: rows, omitted: Math.max(0, (counted[0]?.count ?? 0) - rows.length) };
}

/** Until the transaction ends nobody else makes the first administrator. */
export async function lockSetup(client: ClientBase): Promise<void> {
  await client.query(`select pg_advisory_xact_lock(${LOCKS.setup})`);
}
