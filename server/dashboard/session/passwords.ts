import type { IncomingMessage } from 'node:http';
import { findLink, consumeLink } from '#db/members/links.ts';
import {
  beginTotp,
  confirmTotp,
  lockMember,
  memberByEmail,
  memberById,
  type MemberRow,
  removeTotp,
} from '#db/members/members.ts';
import { seal, unseal } from '#db/secrets/seal.ts';
import { sendJson } from '#server/http/respond.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import type { Change } from '#server/contract/keys.ts';
import {
  StartTotp,
  ChangePassword,
  ConfirmTotp,
  ForgotPassword,
  RemoveTotp,
  ResetPassword,
  type TotpEnrollment,
} from '#server/contract/session.ts';
import { type ApiRoute, ANY_ROLE, publicRoute, route } from '#server/dashboard/gate.ts';
import type { SignedIn } from '#server/sign-in/signed-in.ts';
import { readMe } from '#server/dashboard/session/me.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { digestOf } from '#server/sign-in/cookie.ts';
import { queryAnonymously } from '#server/sign-in/store.ts';
import { makeLink } from '#server/sign-in/links.ts';
import { changeTotp, setPassword } from '#server/sign-in/member-changes.ts';
import { networkOf, ownOrigin } from '#server/sign-in/origin.ts';
import { createTotpSecret, stepOf, TOTP_PURPOSE, totpUri } from '#server/sign-in/totp.ts';
import { change } from '#server/sign-in/transaction.ts';
import { verifyPassword } from '#server/sign-in/verify.ts';
import { errorFields } from '#server/process/logger.ts';

const NOT_VALID = new ApiError('link_not_valid');

/**
 * Passwords and devices: changed by who knows the password, or by a link that an administrator or a mail gave
 * them.
 */
export function passwordRoutes(dashboard: Dashboard): ApiRoute[] {
  const { signIn, config } = dashboard;
  const { readModel, pepper } = dashboard.relay;
  const seat = { control: dashboard.control, readModel };

  /** The row of somebody who is signed in and has given their password once more. */
  async function again(
    request: IncomingMessage,
    { member }: SignedIn,
    password: string,
  ): Promise<MemberRow | ApiError> {
    const row = await memberById(signIn.pool, member.id);
    if (!row) return new ApiError('not_signed_in');
    return verifyPassword(signIn, {
      email: row.email,
      password,
      network: networkOf(request, config.trustedProxies),
    });
  }

  /** Sends a reset link to an address, if it is somebody's. */
  async function sendReset(email: string): Promise<void> {
    const { mail } = signIn;
    const row = mail && (await memberByEmail(signIn.anonymousPool, email));
    if (!mail || !row) return;
    // Links of before stay good: strangers may ask for more of them.
    const link = await change(seat, `member/${row.id}`, async (_control, client) => ({
      position: null,
      done: (await makeLink(client, ownOrigin(config), { kind: 'reset', member: row.id }, null)).link,
    }));
    if (link instanceof ApiError) return;
    await mail.send(
      row.email,
      'Choose a new Daybook password',
      `Somebody, probably you, asked for a new password. This link is good once, for an hour:\n\n${link}\n\nIf it was not you, nothing has changed, and there is nothing to do.\n`,
    );
  }

  return [
    publicRoute('post', '/api/password/forgotten', ForgotPassword, async ({ body, request, response }) => {
      const refused = await signIn.throttle.count('forgotten', networkOf(request, config.trustedProxies));
      if (refused) return refused;
      // The reply must not tell whether there is anybody to send it to, nor by how long it takes.
      sendReset(body.email).catch((error: unknown) =>
        dashboard.log.warn(errorFields(error), 'a reset link was not made'),
      );
      sendJson(response, 202, { object: 'password' });
      return null;
    }),

    publicRoute('post', '/api/password/reset', ResetPassword, async ({ body, request, response }) => {
      const digest = digestOf(body.secret);
      const reset = await queryAnonymously(signIn, (pool) => findLink(pool, 'reset', digest));
      if (reset instanceof ApiError) return reset;
      const member = reset?.member ?? null;
      if (member === null) return NOT_VALID;
      const passwordHash = await signIn.passwords.hash(body.password);
      if (passwordHash instanceof ApiError) return passwordHash;
      const who = await signIn.sessions.whoIs(member);
      if (who instanceof ApiError) return who;
      const opened = await change(seat, `member/${member}`, async (control, client) => {
        if (!(await consumeLink(client, 'reset', digest))) return NOT_VALID;
        const appends = await setPassword(control.actor, client, member, passwordHash, null);
        // Who reads somebody's mail does not have their device.
        const isWithDevice = (await lockMember(client, member))?.sealedTotp !== null;
        const session = isWithDevice
          ? null
          : await signIn.sessions.open(client, request, { id: member, account: who.account.id });
        return { position: await control.append([...appends, ...(session?.appends ?? [])]), done: session };
      });
      if (opened instanceof ApiError) return opened;
      if (opened === null)
        return new ApiError('totp_required', {
          message: 'Your new password is set. Sign in with it, and with a code from your device.',
        });
      opened.tell(response);
      return readMe(dashboard, request, { ...who, session: opened.id });
    }),

    route('post', '/api/password', ANY_ROLE, ChangePassword, async ({ body, request }, who) => {
      const row = await again(request, who, body.current);
      if (row instanceof ApiError) return row;
      const passwordHash = await signIn.passwords.hash(body.password);
      if (passwordHash instanceof ApiError) return passwordHash;
      return change<Change>(seat, `member/${row.id}`, async (control, client) => {
        const position = await control.append(
          await setPassword(control.actor, client, row.id, passwordHash, who.session),
        );
        return { position, done: { event: { type: 'member.password_changed', position } } };
      });
    }),

    route('post', '/api/totp', ANY_ROLE, StartTotp, async ({ body, request }, who) => {
      const row = await again(request, who, body.password);
      if (row instanceof ApiError) return row;
      const secret = createTotpSecret();
      const sealed = seal(pepper, TOTP_PURPOSE, row.id, secret);
      const begun: TotpEnrollment = { object: 'totp', secret, uri: totpUri(secret, row.email) };
      return change(seat, `member/${row.id}`, async (_control, client) => {
        await beginTotp(client, row.id, sealed);
        return { position: null, done: begun };
      });
    }),

    route('put', '/api/totp', ANY_ROLE, ConfirmTotp, async ({ body }, { member }) => {
      const refused = await signIn.throttle.count('code', member.id);
      if (refused) return refused;
      const answer = await change(seat, `member/${member.id}`, async (control, client) => {
        const sealed = (await lockMember(client, member.id))?.sealedTotpBegun ?? null;
        if (sealed === null)
          return new ApiError('not_allowed', { message: 'No device is being set up. Begin anew.' });
        const step = stepOf(unseal(pepper, TOTP_PURPOSE, member.id, sealed), body.code, readModel.nowMs());
        if (step === null) return new ApiError('wrong_code');
        return changeTotp(control, client, member.id, true, () =>
          confirmTotp(client, member.id, sealed, step),
        );
      });
      if (!(answer instanceof ApiError)) await signIn.throttle.reset('code', member.id);
      return answer;
    }),

    route('post', '/api/totp/remove', ANY_ROLE, RemoveTotp, async ({ body, request }, who) => {
      const row = await again(request, who, body.password);
      if (row instanceof ApiError) return row;
      if (row.sealedTotp === null) return { event: null };
      return change(seat, `member/${row.id}`, (control, client) =>
        changeTotp(control, client, row.id, false, () => removeTotp(client, row.id)),
      );
    }),
  ];
}
