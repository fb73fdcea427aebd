import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import type { Role } from '#db/events/parts.ts';
import { countOf, db, rowOf, rowsOf, type Queryable } from '#db/schema/query.ts';

/** The credentials of members: the only queries on `daybook.member`. */

export type MemberRow = {
  id: string;
  email: string;
  /** Null: they sign in through an identity provider. */
  passwordHash: string | null;
  role: Role;
  sealedTotp: Buffer | null;
  sealedTotpBegun: Buffer | null;
};

const members = db
  .selectFrom('daybook.member')
  .select([
    'id',
    'email',
    'password_hash as passwordHash',
    'role',
    'sealed_totp as sealedTotp',
    'sealed_totp_begun as sealedTotpBegun',
  ]);

/** @param email in lower case. */
export async function memberByEmail(client: Queryable, email: string): Promise<MemberRow | null> {
  return (await rowOf(client, members.where('email', '=', email), 'member_by_email')) ?? null;
}

export async function memberById(client: Queryable, id: string): Promise<MemberRow | null> {
  return (await rowOf(client, members.where('id', '=', id), 'member_by_id')) ?? null;
}

/** The same, and locks the row against changes until the transaction ends. */
export async function lockMember(client: ClientBase, id: string): Promise<MemberRow | null> {
  return (await rowOf(client, members.where('id', '=', id).forShare())) ?? null;
}

/** The addresses of these members by their ids; members without a row are skipped. */
export async function readEmails(client: Queryable, ids: readonly string[]): Promise<Map<string, string>> {
  const rows = await rowsOf(
    client,
    db
      .selectFrom('daybook.member')
      .select(['id', 'email'])
      .where((eb) => eb('id', '=', eb.fn.any(sql.val(ids)))),
  );
  return new Map(rows.map(({ id, email }) => [id, email]));
}

/**
 * Members whose email addresses contain a text, in alphabetical order.
 * @param text in lower case.
 * @param ids null: of all members.
 */
export async function findByEmail(
  client: Queryable,
  text: string,
  limit: number,
  ids: readonly string[] | null,
): Promise<string[]> {
  const pattern = `%${text.replaceAll(/[%\\_]/g, '\\$&')}%`;
  let query = db.selectFrom('daybook.member').select('id').where('email', 'like', pattern);
  if (ids !== null) query = query.where((eb) => eb('id', '=', eb.fn.any(sql.val(ids))));
  return (await rowsOf(client, query.orderBy('email').limit(limit))).map(({ id }) => id);
}

/** @returns false if the address is taken; nothing is written then. */
export async function insertMember(
  client: ClientBase,
  { id, email, passwordHash, role }: { id: string; email: string; passwordHash: string | null; role: Role },
): Promise<boolean> {
  const query = db
    .insertInto('daybook.member')
    .values({ id, email, password_hash: passwordHash, role })
    .onConflict((conflict) => conflict.column('email').doNothing());
  return (await countOf(client, query)) === 1;
}

/** Erases a member, with sessions and reset links. @returns whether the member existed. */
export async function eraseMember(client: ClientBase, id: string): Promise<boolean> {
  return (await countOf(client, db.deleteFrom('daybook.member').where('id', '=', id))) === 1;
}

export async function setPasswordHash(client: ClientBase, id: string, passwordHash: string): Promise<void> {
  await countOf(
    client,
    db.updateTable('daybook.member').set({ password_hash: passwordHash }).where('id', '=', id),
  );
}

export async function setRole(client: ClientBase, id: string, role: Role): Promise<void> {
  await countOf(client, db.updateTable('daybook.member').set({ role }).where('id', '=', id));
}

export type Administrator = { id: string; hasPassword: boolean };

/**
 * The administrators. Their rows stay locked until the transaction ends, which serializes concurrent changes
 * of administrators.
 */
export async function lockAdministrators(client: ClientBase): Promise<Administrator[]> {
  const query = db
    .selectFrom('daybook.member')
    .select((eb) => ['id', eb('password_hash', 'is not', null).$castTo<boolean>().as('hasPassword')])
    .where('role', '=', 'administrator')
    .orderBy('id')
    .forUpdate();
  return rowsOf(client, query);
}

export async function hasAdministrator(client: Queryable): Promise<boolean> {
  const query = db.selectFrom('daybook.member').select('id').where('role', '=', 'administrator').limit(1);
  return (await rowOf(client, query)) !== undefined;
}

/** Stores the secret of an authenticator app, which is unused until it is confirmed. */
export async function beginTotp(client: ClientBase, id: string, sealed: Buffer): Promise<void> {
  await countOf(
    client,
    db.updateTable('daybook.member').set({ sealed_totp_begun: sealed }).where('id', '=', id),
  );
}

/** Makes the unconfirmed secret the current one. @param step of the code that confirmed it. */
export async function confirmTotp(
  client: ClientBase,
  id: string,
  sealed: Buffer,
  step: number,
): Promise<void> {
  await countOf(
    client,
    db
      .updateTable('daybook.member')
      .set({ sealed_totp: sealed, sealed_totp_begun: null, totp_step: step })
      .where('id', '=', id),
  );
}

export async function removeTotp(client: ClientBase, id: string): Promise<void> {
  await countOf(
    client,
    db
      .updateTable('daybook.member')
      .set({ sealed_totp: null, sealed_totp_begun: null, totp_step: null })
      .where('id', '=', id),
  );
}

/** Uses a code, and with it all earlier ones. @returns false if it was used before. */
export async function consumeTotpStep(client: Queryable, id: string, step: number): Promise<boolean> {
  const query = db
    .updateTable('daybook.member')
    .set({ totp_step: step })
    .where('id', '=', id)
    .where((eb) => eb.or([eb('totp_step', 'is', null), eb('totp_step', '<', String(step))]));
  return (await countOf(client, query)) === 1;
}
