import type { Role } from '#db/events/parts.ts';
import { providersOf } from '#db/members/identities.ts';
import type { Queryable } from '#db/schema/query.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';

/**
 * Whether a member may sign in with a password. Administrators always may, so that a faulty provider locks no
 * one out. Members of a provider sign in through it alone, so that it can end their access.
 */
export async function checkPasswordPolicy(
  client: Queryable,
  readModel: ReadModel,
  { role, member }: { role: Role; member: string },
): Promise<ApiError | null> {
  if (role === 'administrator') return null;
  const isOff =
    readModel.identities.signIn.passwords === 'administrators' ||
    (await providersOf(client, member)).length > 0;
  return isOff ? new ApiError('password_sign_in_off') : null;
}
