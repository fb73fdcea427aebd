import type { IncomingMessage } from 'node:http';
import { memberById, type MemberRow } from '#db/members/members.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import type { SignedIn } from '#server/sign-in/signed-in.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { placeOf } from '#server/sign-in/origin.ts';
import { verifyPassword } from '#server/sign-in/verify.ts';

/** Verifies the password of a signed-in member again, before a sensitive change. */
export async function verifyAgain(
  { signIn, config }: Pick<Dashboard, 'signIn' | 'config'>,
  request: IncomingMessage,
  { member, session }: SignedIn,
  password: string,
): Promise<MemberRow | ApiError> {
  const row = await memberById(signIn.pool, member.id);
  if (!row) return new ApiError('unauthenticated');
  return verifyPassword(signIn, {
    email: row.email,
    password,
    ...placeOf(request, config.trustedProxies),
    // Signed in, so known.
    device: session,
  });
}
