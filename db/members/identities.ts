import type { ClientBase } from 'pg';
import { countOf, db, rowOf, rowsOf, type Queryable } from '#db/schema/query.ts';

/**
 * Identities of members at OpenID providers, and the secrets of these: the only queries on
 * `daybook.identity` and `daybook.provider_secret`.
 */

/** A person as an issuer knows them. */
export type Identity = { issuer: string; subject: string };

/** The member with an identity; null: none. */
export async function memberByIdentity(
  client: Queryable,
  { issuer, subject }: Identity,
): Promise<string | null> {
  const query = db
    .selectFrom('daybook.identity')
    .select('member')
    .where('issuer', '=', issuer)
    .where('subject', '=', subject);
  return (await rowOf(client, query))?.member ?? null;
}

/** @returns false if the identity is another member's; nothing is written then. */
export async function insertIdentity(
  client: ClientBase,
  identity: Identity & { provider: string; member: string },
): Promise<boolean> {
  const query = db
    .insertInto('daybook.identity')
    .values(identity)
    .onConflict((conflict) => conflict.doNothing());
  return (await countOf(client, query)) === 1;
}

/** The providers that a member signs in through. */
export async function providersOf(client: Queryable, member: string): Promise<string[]> {
  const query = db.selectFrom('daybook.identity').select('provider').where('member', '=', member);
  return (await rowsOf(client, query)).map(({ provider }) => provider);
}

/** Deletes the identities of a provider. @returns the ids of their members. */
export async function deleteIdentities(client: ClientBase, provider: string): Promise<string[]> {
  const query = db.deleteFrom('daybook.identity').where('provider', '=', provider).returning('member');
  return (await rowsOf(client, query)).map(({ member }) => member);
}

/** The members who have an identity. */
export async function readIdentities(client: Queryable): Promise<Set<string>> {
  const query = db.selectFrom('daybook.identity').select('member').distinct();
  return new Set((await rowsOf(client, query)).map(({ member }) => member));
}

/** The sealed client secret of a provider; null: it is a public client. */
export async function readProviderSecret(client: Queryable, provider: string): Promise<Buffer | null> {
  const query = db
    .selectFrom('daybook.provider_secret')
    .select('sealed_secret')
    .where('provider', '=', provider);
  return (await rowOf(client, query))?.sealed_secret ?? null;
}

/** Replaces the sealed client secret of a provider; null: deletes it. */
export async function writeProviderSecret(
  client: ClientBase,
  provider: string,
  sealed_secret: Buffer | null,
): Promise<void> {
  await countOf(client, db.deleteFrom('daybook.provider_secret').where('provider', '=', provider));
  if (sealed_secret !== null)
    await countOf(client, db.insertInto('daybook.provider_secret').values({ provider, sealed_secret }));
}

/** The providers that have a client secret. */
export async function providersWithSecret(client: Queryable): Promise<Set<string>> {
  const rows = await rowsOf(client, db.selectFrom('daybook.provider_secret').select('provider'));
  return new Set(rows.map(({ provider }) => provider));
}
