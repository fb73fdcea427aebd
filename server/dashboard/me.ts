import type { IncomingMessage } from 'node:http';
import type { Pool } from 'pg';
import { memberById } from '#db/members.ts';
import type { Config } from '#server/config.ts';
import type { Me } from '#server/dashboard/contract-session.ts';
import type { SignedIn } from '#server/dashboard/gate.ts';
import { Refusal } from '#server/errors.ts';
import type { ReadModel } from '#server/read-model.ts';
import { originFor } from '#server/sign-in/origin.ts';

/** What somebody who is signed in is told of themselves. */
export async function describeMe(
  { pool, readModel, config, baseUrl }: { pool: Pool; readModel: ReadModel; config: Config; baseUrl: () => string },
  request: IncomingMessage,
  { session, member, account }: SignedIn,
): Promise<Me | Refusal> {
  const row = await memberById(pool, member.id);
  // Removed since the session was found.
  if (!row) return new Refusal('not_signed_in');
  return {
    object: 'me',
    member: { id: member.id, email: row.email, role: member.role, has_totp: member.hasTotp },
    account: { id: account.id, name: account.name, state: account.state, plan: account.plan },
    session,
    base_url: `${originFor(request, config, baseUrl().replace(/\/v1$/, ''))}/v1`,
    now: new Date(readModel.nowMs()).toISOString(),
  };
}
