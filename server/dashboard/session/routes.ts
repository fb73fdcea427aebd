import { ChangeReply, listOf } from '#server/contract/parts.ts';
import { Me, SessionRow, SignIn, Welcome } from '#server/contract/session.ts';
import type { Client } from 'pg';
import { lockMember } from '#db/members/members.ts';
import { deleteSession, deleteSessions, listSessions } from '#db/members/sessions.ts';
import { parseId } from '#server/dashboard/change.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import type { Change } from '#server/contract/keys.ts';
import { type ApiCall, type ApiRoute, ANY_ROLE, publicRoute, memberRoute } from '#server/dashboard/gate.ts';
import type { SignedIn } from '#server/sign-in/signed-in.ts';
import { readMe } from '#server/dashboard/session/me.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { clearCookie } from '#server/sign-in/cookie.ts';
import { readKnownDevice, setKnownDevice } from '#server/sign-in/known-device.ts';
import { placeOf } from '#server/sign-in/origin.ts';
import { checkPasswordPolicy } from '#server/sign-in/password-policy.ts';
import { sessionClosedAppends } from '#server/sign-in/sessions.ts';
import { change } from '#server/sign-in/transaction.ts';
import { verifyCode, verifyPassword } from '#server/sign-in/verify.ts';

/** Routes to sign in and out, and for the sessions of a member. */
export function sessionRoutes(dashboard: Dashboard): ApiRoute[] {
  const { signIn } = dashboard;
  const { readModel, pepper } = dashboard.relay;

  /** Ends sessions of the signed-in member; `end` deletes the rows and returns their ids. */
  function close(who: SignedIn, end: (client: Client) => Promise<string[]>): Promise<Change | ApiError> {
    const member = { id: who.member.id, account: who.account.id };
    return change<Change>(
      { control: dashboard.control, readModel },
      `member/${member.id}`,
      async (control, client) => {
        const ended = await end(client);
        // A concurrent request ended them and appended the events.
        if (ended.length === 0) return { position: null, done: { event: null } };
        const position = await control.append(sessionClosedAppends(ended, member, control.actor));
        return { position, done: { event: { type: 'session.closed', position } } };
      },
    );
  }

  /** Ends this browser's session and clears its cookie. */
  async function signOut(
    { request, response }: ApiCall<unknown>,
    closed: Promise<Change | ApiError>,
  ): Promise<Change | ApiError> {
    const answer = await closed;
    if (!(answer instanceof ApiError)) clearCookie(request, response, dashboard.config);
    return answer;
  }

  return [
    publicRoute('get', '/api/v1/welcome', { reply: Welcome }, async () => {
      const welcome: Welcome = {
        object: 'welcome',
        registration: readModel.registration.policy,
        needs_setup: !readModel.hasAdministrator,
        can_send_mail: signIn.mail !== null,
        providers: readModel.identities.active.map(({ name, terms: { label } }) => ({
          name,
          label,
          start_path: `/sign-in/${name}/start`,
        })),
        passwords: readModel.identities.signIn.passwords,
      };
      return welcome;
    }),

    memberRoute('get', '/api/v1/me', ANY_ROLE, { reply: Me }, ({ request }, who) =>
      readMe(dashboard, request, who),
    ),

    publicRoute(
      'post',
      '/api/v1/session',
      { body: SignIn, reply: Me },
      async ({ body, request, response }) => {
        const { email, password, code } = body;
        const row = await verifyPassword(signIn, {
          email,
          password,
          ...placeOf(request, dashboard.config.trustedProxies),
          device: readKnownDevice(request, dashboard.config, pepper, email, readModel.nowMs()),
        });
        if (row instanceof ApiError) return row;
        const off = await checkPasswordPolicy(signIn.anonymousPool, readModel, {
          role: row.role,
          member: row.id,
        });
        if (off) return off;
        const refused = await verifyCode(signIn, pepper, row, code, readModel.nowMs());
        if (refused) return refused;
        const known = await signIn.sessions.whoIs(row.id);
        if (known instanceof ApiError) return known;
        const member = { id: row.id, account: known.account.id };
        const opened = await change(
          { control: dashboard.control, readModel },
          `member/${row.id}`,
          async (control, client) => {
            // A concurrent password change ended all sessions; this one must not outlive it.
            if ((await lockMember(client, row.id))?.passwordHash !== row.passwordHash)
              return new ApiError('invalid_credentials');
            const session = await signIn.sessions.open(client, request, member);
            return { position: await control.append(session.appends), done: session };
          },
        );
        if (opened instanceof ApiError) return opened;
        opened.setCookie(response);
        setKnownDevice(request, response, dashboard.config, pepper, email, readModel.nowMs());
        return readMe(dashboard, request, { ...known, session: opened.id });
      },
    ),

    memberRoute('delete', '/api/v1/session', ANY_ROLE, { reply: ChangeReply }, (call, who) =>
      signOut(
        call,
        close(who, async (client) =>
          (await deleteSession(client, who.member.id, who.session)) ? [who.session] : [],
        ),
      ),
    ),

    memberRoute('get', '/api/v1/sessions', ANY_ROLE, { reply: listOf(SessionRow) }, async (_call, who) => {
      const rows = await listSessions(signIn.pool, who.member.id);
      const data = rows.map(({ id, openedAt, seenAt, expiresAt, browser, network }): SessionRow => ({
        id,
        created_at: openedAt.toISOString(),
        last_seen_at: seenAt.toISOString(),
        expires_at: expiresAt.toISOString(),
        browser,
        network,
        is_current: id === who.session,
      }));
      return { object: 'list', data };
    }),

    memberRoute('delete', '/api/v1/sessions', ANY_ROLE, { reply: ChangeReply }, (call, who) =>
      signOut(
        call,
        close(who, (client) => deleteSessions(client, who.member.id, null)),
      ),
    ),

    memberRoute(
      'delete',
      '/api/v1/sessions/:session',
      ANY_ROLE,
      { reply: ChangeReply },
      async (call, who) => {
        const id = parseId(call.params, 'session');
        if (id instanceof ApiError) return id;
        const closed = close(who, async (client) =>
          (await deleteSession(client, who.member.id, id)) ? [id] : [],
        );
        const answer = id === who.session ? await signOut(call, closed) : await closed;
        return !(answer instanceof ApiError) && answer.event === null ? new ApiError('not_found') : answer;
      },
    ),
  ];
}
