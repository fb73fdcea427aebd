import type { ClientBase } from 'pg';
import { readProviderSecret, writeProviderSecret } from '#db/members/identities.ts';
import { seal, unseal } from '#db/secrets/seal.ts';
import type { Queryable } from '#db/schema/query.ts';

const PURPOSE = 'daybook identity provider secret';

/** Stores the client secret of a provider, sealed; null: it has none. */
export const storeClientSecret = (
  client: ClientBase,
  pepper: Buffer,
  provider: string,
  secret: string | null,
): Promise<void> =>
  writeProviderSecret(client, provider, secret === null ? null : seal(pepper, PURPOSE, provider, secret));

/** @throws {Error} if it was sealed under another pepper or was modified. */
export async function openClientSecret(
  client: Queryable,
  pepper: Buffer,
  provider: string,
): Promise<string | null> {
  const sealed = await readProviderSecret(client, provider);
  return sealed === null ? null : unseal(pepper, PURPOSE, provider, sealed);
}
