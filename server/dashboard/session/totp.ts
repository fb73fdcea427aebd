import { ConfirmTotp, RemoveTotp, StartTotp, TotpEnrollment } from '#server/contract/session.ts';
import { ChangeReply } from '#server/contract/parts.ts';
import { beginTotp, confirmTotp, lockMember, removeTotp } from '#db/members/members.ts';
import { seal, unseal } from '#db/secrets/seal.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import { ANY_ROLE, type ApiRoute, memberRoute } from '#server/dashboard/gate.ts';
import { verifyAgain } from '#server/dashboard/session/verify-again.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { changeTotp } from '#server/sign-in/member-changes.ts';
import { createTotpSecret, stepOf, TOTP_PURPOSE, totpUri } from '#server/sign-in/totp.ts';
import { change } from '#server/sign-in/transaction.ts';

/** Routes for two-factor authentication by an authenticator app (TOTP, RFC 6238). */
export function totpRoutes(dashboard: Dashboard): ApiRoute[] {
  const { control, signIn, relay } = dashboard;
  const { readModel, pepper } = relay;
  const writer = { control, readModel };
  return [
    memberRoute(
      'post',
      '/api/v1/totp',
      ANY_ROLE,
      { body: StartTotp, reply: TotpEnrollment },
      async ({ body, request }, who) => {
        const row = await verifyAgain(dashboard, request, who, body.password);
        if (row instanceof ApiError) return row;
        const secret = createTotpSecret();
        const sealed = seal(pepper, TOTP_PURPOSE, row.id, secret);
        const enrollment: TotpEnrollment = { object: 'totp', secret, uri: totpUri(secret, row.email) };
        return change(writer, `member/${row.id}`, async (_control, client) => {
          await beginTotp(client, row.id, sealed);
          return { position: null, done: enrollment };
        });
      },
    ),

    memberRoute(
      'put',
      '/api/v1/totp',
      ANY_ROLE,
      { body: ConfirmTotp, reply: ChangeReply },
      async ({ body }, { member }) => {
        const throttled = await signIn.throttle.count('code', member.id);
        if (throttled) return throttled;
        const changed = await change(writer, `member/${member.id}`, async (by, client) => {
          const sealed = (await lockMember(client, member.id))?.sealedTotpBegun ?? null;
          if (sealed === null)
            return new ApiError('not_allowed', {
              message: "Two-factor setup hasn't been started. Start it again.",
            });
          const step = stepOf(unseal(pepper, TOTP_PURPOSE, member.id, sealed), body.code, readModel.nowMs());
          if (step === null) return new ApiError('invalid_totp_code');
          return changeTotp(by, client, member.id, true, () => confirmTotp(client, member.id, sealed, step));
        });
        if (!(changed instanceof ApiError)) await signIn.throttle.reset('code', member.id);
        return changed;
      },
    ),

    memberRoute(
      'post',
      '/api/v1/totp/remove',
      ANY_ROLE,
      { body: RemoveTotp, reply: ChangeReply },
      async ({ body, request }, who) => {
        const row = await verifyAgain(dashboard, request, who, body.password);
        if (row instanceof ApiError) return row;
        if (row.sealedTotp === null) return { event: null };
        return change(writer, `member/${row.id}`, (by, client) =>
          changeTotp(by, client, row.id, false, () => removeTotp(client, row.id)),
        );
      },
    ),
  ];
}
