import { ChangeReply, objectReply } from '#server/contract/parts.ts';
import { ChangePassword, ForgotPassword, Me, ResetPassword } from '#server/contract/session.ts';
import { findLink, consumeLink } from '#db/members/links.ts';
import { lockMember, memberByEmail } from '#db/members/members.ts';
import { sendJson } from '#server/http/respond.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import type { Change } from '#server/contract/keys.ts';
import { ANY_ROLE, type ApiRoute, publicRoute, memberRoute } from '#server/dashboard/gate.ts';
import { readMe } from '#server/dashboard/session/me.ts';
import { verifyAgain } from '#server/dashboard/session/verify-again.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { digestOf } from '#server/sign-in/cookie.ts';
import { queryAnonymously } from '#server/sign-in/store.ts';
import { makeLink } from '#server/sign-in/links.ts';
import { setPassword } from '#server/sign-in/member-changes.ts';
import { networkOf, ownOrigin } from '#server/sign-in/origin.ts';
import { checkPasswordPolicy } from '#server/sign-in/password-policy.ts';
import { change } from '#server/sign-in/transaction.ts';
import { errorFields } from '#db/diagnostics/error-fields.ts';

const LINK_NOT_VALID = new ApiError('invalid_link');

/** Routes to change a password, or to reset it by a link. */
export function passwordRoutes(dashboard: Dashboard): ApiRoute[] {
  return [forgotPassword(dashboard), resetPassword(dashboard), changePassword(dashboard)];
}

/** Sends a reset link. The reply and its time are the same whether the email is known or not. */
function forgotPassword(dashboard: Dashboard): ApiRoute {
  const { signIn, config, log } = dashboard;
  return publicRoute(
    'post',
    '/api/v1/password/forgotten',
    { body: ForgotPassword, reply: objectReply('password') },
    async ({ body, request, response }) => {
      const throttled = await signIn.throttle.count('forgotten', networkOf(request, config.trustedProxies));
      if (throttled) return throttled;
      sendResetLink(dashboard, body.email).catch((error: unknown) =>
        log.warn(errorFields(error), 'creating a password reset link failed'),
      );
      sendJson(response, 202, { object: 'password' });
      return null;
    },
  );
}

async function sendResetLink(
  { control, signIn, config, relay: { readModel } }: Dashboard,
  email: string,
): Promise<void> {
  const { mail } = signIn;
  const row = mail && (await memberByEmail(signIn.anonymousPool, email));
  // Members of an identity provider have no password to forget.
  if (!mail || !row || row.passwordHash === null) return;
  // Earlier links stay valid: anyone may ask for another one.
  const link = await change({ control, readModel }, `member/${row.id}`, async (_writer, client) => ({
    position: null,
    done: (await makeLink(client, ownOrigin(config), { kind: 'reset', member: row.id }, null)).link,
  }));
  if (link instanceof ApiError) return;
  await mail.send(
    row.email,
    'Reset your Daybook password',
    [
      'Someone, probably you, asked to reset your password. This link works once and expires in one hour:',
      link,
      "If it wasn't you, ignore this email. Your password hasn't changed.\n",
    ].join('\n\n'),
  );
}

/** Sets a password by a reset link; signs in, unless two-factor authentication is on. */
function resetPassword(dashboard: Dashboard): ApiRoute {
  const {
    control,
    signIn,
    relay: { readModel },
  } = dashboard;
  return publicRoute(
    'post',
    '/api/v1/password/reset',
    { body: ResetPassword, reply: Me },
    async ({ body, request, response }) => {
      const digest = digestOf(body.secret);
      const link = await queryAnonymously(signIn, (pool) => findLink(pool, 'reset', digest));
      if (link instanceof ApiError) return link;
      const member = link?.member ?? null;
      if (member === null) return LINK_NOT_VALID;
      const passwordHash = await signIn.passwords.hash(body.password);
      if (passwordHash instanceof ApiError) return passwordHash;
      const who = await signIn.sessions.whoIs(member);
      if (who instanceof ApiError) return who;
      const off = await checkPasswordPolicy(signIn.anonymousPool, readModel, { role: who.role, member });
      if (off) return off;
      const opened = await change({ control, readModel }, `member/${member}`, async (writer, client) => {
        if (!(await consumeLink(client, 'reset', digest))) return LINK_NOT_VALID;
        const appends = await setPassword(writer.actor, client, member, passwordHash, null);
        // Access to the member's mailbox doesn't replace the second factor.
        const hasTotp = (await lockMember(client, member))?.sealedTotp !== null;
        const session = hasTotp
          ? null
          : await signIn.sessions.open(client, request, { id: member, account: who.account.id });
        return { position: await writer.append([...appends, ...(session?.appends ?? [])]), done: session };
      });
      if (opened instanceof ApiError) return opened;
      if (opened === null)
        return new ApiError('totp_required', {
          message: 'Your password has been changed. Sign in with it and a code from your authenticator app.',
        });
      opened.setCookie(response);
      return readMe(dashboard, request, { ...who, session: opened.id });
    },
  );
}

function changePassword(dashboard: Dashboard): ApiRoute {
  const {
    control,
    signIn,
    relay: { readModel },
  } = dashboard;
  return memberRoute(
    'post',
    '/api/v1/password',
    ANY_ROLE,
    { body: ChangePassword, reply: ChangeReply },
    async ({ body, request }, who) => {
      const row = await verifyAgain(dashboard, request, who, body.current);
      if (row instanceof ApiError) return row;
      const passwordHash = await signIn.passwords.hash(body.password);
      if (passwordHash instanceof ApiError) return passwordHash;
      return change<Change>({ control, readModel }, `member/${row.id}`, async (writer, client) => {
        const position = await writer.append(
          await setPassword(writer.actor, client, row.id, passwordHash, who.session),
        );
        return { position, done: { event: { type: 'member.password_changed', position } } };
      });
    },
  );
}
