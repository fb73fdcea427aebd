import type { ClientBase } from 'pg';
import type { Role } from '#db/events/parts.ts';

/** What members sign in with: the only SQL on `daybook.member`. */

export type MemberRow = {
  id: string;
  email: string;
  passwordHash: string;
  role: Role;
  sealedTotp: Buffer | null;
  sealedTotpBegun: Buffer | null;
};

const COLUMNS =
  'id, email, password_hash as "passwordHash", role, sealed_totp as "sealedTotp", sealed_totp_begun as "sealedTotpBegun"';

/** @param email in lower case. */
export async function memberByEmail(
  client: Pick<ClientBase, 'query'>,
  email: string,
): Promise<MemberRow | null> {
  const { rows } = await client.query<MemberRow>({
    name: 'member_by_email',
    text: `select ${COLUMNS} from daybook.member where email = $1`,
    values: [email],
  });
  return rows[0] ?? null;
}

export async function memberById(client: Pick<ClientBase, 'query'>, id: string): Promise<MemberRow | null> {
  const { rows } = await client.query<MemberRow>({
    name: 'member_by_id',
    text: `select ${COLUMNS} from daybook.member where id = $1`,
    values: [id],
  });
  return rows[0] ?? null;
}

/** The same, and nobody changes or erases it until the transaction ends. */
export async function lockMember(client: ClientBase, id: string): Promise<MemberRow | null> {
  const { rows } = await client.query<MemberRow>(
    `select ${COLUMNS} from daybook.member where id = $1 for share`,
    [id],
  );
  return rows[0] ?? null;
}

/** The addresses of these members, by their ids; those without a row are left out. */
export async function readEmails(
  client: Pick<ClientBase, 'query'>,
  ids: readonly string[],
): Promise<Map<string, string>> {
  const { rows } = await client.query<{ id: string; email: string }>(
    'select id, email from daybook.member where id = any($1)',
    [ids],
  );
  return new Map(rows.map(({ id, email }) => [id, email]));
}

/** @returns false when the address is taken; nothing is written then. */
export async function insertMember(
  client: ClientBase,
  member: { id: string; email: string; passwordHash: string; role: Role },
): Promise<boolean> {
  const { rowCount } = await client.query(
    'insert into daybook.member (id, email, password_hash, role) values ($1, $2, $3, $4) on conflict (email) do nothing',
    [member.id, member.email, member.passwordHash, member.role],
  );
  return rowCount === 1;
}

/** Erases a member, with sessions and reset links. @returns whether there was one. */
export async function eraseMember(client: ClientBase, id: string): Promise<boolean> {
  return (await client.query('delete from daybook.member where id = $1', [id])).rowCount === 1;
}

export async function setPasswordHash(client: ClientBase, id: string, passwordHash: string): Promise<void> {
  await client.query('update daybook.member set password_hash = $2 where id = $1', [id, passwordHash]);
}

export async function setRole(client: ClientBase, id: string, role: Role): Promise<void> {
  await client.query('update daybook.member set role = $2 where id = $1', [id, role]);
}

/**
 * The administrators, whose rows stay locked until the transaction ends: two changes of them wait for one
 * another.
 */
export async function lockAdministrators(client: ClientBase): Promise<string[]> {
  const { rows } = await client.query<{ id: string }>(
    "select id from daybook.member where role = 'administrator' order by id for update",
  );
  return rows.map(({ id }) => id);
}

export async function hasAdministrator(client: Pick<ClientBase, 'query'>): Promise<boolean> {
  const { rowCount } = await client.query("select from daybook.member where role = 'administrator' limit 1");
  return rowCount === 1;
}

/** Notes a device's secret, which is of no use before it is confirmed. */
export async function beginTotp(client: ClientBase, id: string, sealed: Buffer): Promise<void> {
  await client.query('update daybook.member set sealed_totp_begun = $2 where id = $1', [id, sealed]);
}

/** The secret that was begun is the one from here on. @param step of the code that confirmed it. */
export async function confirmTotp(
  client: ClientBase,
  id: string,
  sealed: Buffer,
  step: number,
): Promise<void> {
  await client.query(
    'update daybook.member set sealed_totp = $2, sealed_totp_begun = null, totp_step = $3 where id = $1',
    [id, sealed, step],
  );
}

export async function removeTotp(client: ClientBase, id: string): Promise<void> {
  await client.query(
    'update daybook.member set sealed_totp = null, sealed_totp_begun = null, totp_step = null where id = $1',
    [id],
  );
}

/** Uses a code up, with all before it. @returns false when that was done already. */
export async function consumeTotpStep(
  client: Pick<ClientBase, 'query'>,
  id: string,
  step: number,
): Promise<boolean> {
  const { rowCount } = await client.query(
    'update daybook.member set totp_step = $2 where id = $1 and (totp_step is null or totp_step < $2)',
    [id, step],
  );
  return rowCount === 1;
}
