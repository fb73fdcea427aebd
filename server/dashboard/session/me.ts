import type { IncomingMessage } from 'node:http';
import { memberById } from '#db/members/members.ts';
import type { Me } from '#server/contract/session.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import type { SignedIn } from '#server/sign-in/signed-in.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { originFor } from '#server/sign-in/origin.ts';

/** The signed-in member, their account and session. */
export async function readMe(
  { signIn, relay, config, origin }: Pick<Dashboard, 'signIn' | 'relay' | 'config' | 'origin'>,
  request: IncomingMessage,
  { session, member, account }: SignedIn,
): Promise<Me | ApiError> {
  const row = await memberById(signIn.pool, member.id);
  // Removed since the session was found.
  if (!row) return new ApiError('unauthenticated');
  return {
    object: 'me',
    member: {
      id: member.id,
      email: row.email,
      role: member.role,
      has_totp: member.hasTotp,
      has_password: row.passwordHash !== null,
    },
    account: { id: account.id, name: account.name, state: account.state, plan: account.plan },
    session,
    base_url: `${originFor(request, config, origin())}/v1`,
    now: new Date(relay.readModel.nowMs()).toISOString(),
  };
}
