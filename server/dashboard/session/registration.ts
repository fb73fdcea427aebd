import { setTimeout as wait } from 'node:timers/promises';
import type { z } from 'zod';
import type { IncomingMessage } from 'node:http';
import {
  deleteLinks,
  findLink,
  type Invitation,
  lockSetup,
  readInvitation,
  consumeLink,
} from '#db/members/links.ts';
import { hasAdministrator } from '#db/members/members.ts';
import { sendJson } from '#server/http/respond.ts';
import { REGISTRATION_STEP_MS } from '#server/sign-in/bounds.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import {
  AcceptInvitation,
  type InvitationDetail,
  ReadInvitation,
  type Me,
  Register,
  SetUp,
} from '#server/contract/session.ts';
import { type ApiRoute, publicRoute } from '#server/dashboard/gate.ts';
import { readMe } from '#server/dashboard/session/me.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { FIRST_ACCOUNT } from '#server/process/prepare-store.ts';
import { registerMember, type Registration, EMAIL_TAKEN } from '#server/sign-in/registration.ts';
import { digestOf } from '#server/sign-in/cookie.ts';
import { queryAnonymously } from '#server/sign-in/store.ts';
import { networkOf } from '#server/sign-in/origin.ts';
import { deleteSetupFile } from '#server/sign-in/setup.ts';

const NOT_VALID = new ApiError('link_not_valid');

/** How people come in: the first by the setup link, others by an invitation or by themselves. */
export function registrationRoutes(dashboard: Dashboard): ApiRoute[] {
  const { signIn, config } = dashboard;
  const readModel = dashboard.relay.readModel;
  const seat = { control: dashboard.control, readModel };

  /**
   * The plan that new accounts land on; refused where it is of no use any more, since none would limit
   * nothing.
   */
  function landing(): { plan: string | null } | ApiError {
    const { plan } = readModel.registration;
    if (plan !== null && readModel.plan(plan)?.state !== 'active') {
      return new ApiError('registration_closed', {
        message: 'Nobody can register right now: the plan for new accounts has ended. Tell an administrator.',
      });
    }
    return { plan };
  }

  /** Where an invitation leads. */
  function accountOf(
    { account }: Pick<Invitation, 'account'>,
    name: string,
  ): Registration['account'] | ApiError {
    if (account !== null) return { joins: account };
    const landed = landing();
    return landed instanceof ApiError ? landed : { name, ...landed };
  }

  /** Who has just come in, in their new session. */
  async function me(
    request: IncomingMessage,
    arrived: { member: string; session: string | null } | ApiError,
  ): Promise<Me | ApiError> {
    if (arrived instanceof ApiError) return arrived;
    const who = await signIn.sessions.whoIs(arrived.member);
    if (who instanceof ApiError) return who;
    return readMe(dashboard, request, { ...who, session: arrived.session ?? '' });
  }

  async function register(
    body: z.output<typeof Register>,
    invitation: Invitation | null,
    digest: Buffer | null,
  ): Promise<ApiError | null> {
    const passwordHash = await signIn.passwords.hash(body.password);
    if (passwordHash instanceof ApiError) return passwordHash;
    const account = accountOf(invitation ?? { account: null }, body.account_name);
    if (account instanceof ApiError) return account;
    const arrival: Registration = {
      email: body.email,
      passwordHash,
      role: invitation?.role ?? 'member',
      account,
      ...(invitation ? { invitation: invitation.id } : {}),
    };
    const arrived = await registerMember(
      seat,
      'registration',
      arrival,
      async (client) =>
        digest === null || (await consumeLink(client, 'invitation', digest)) ? null : NOT_VALID,
      null,
    );
    // Whether an address is known here is nobody's business but its owner's.
    return arrived instanceof ApiError && arrived !== EMAIL_TAKEN ? arrived : null;
  }

  return [
    publicRoute('post', '/api/setup', SetUp, async ({ body, request, response }) => {
      const { secret, email, password, account_name: name } = body;
      const digest = digestOf(secret);
      const setup = await queryAnonymously(signIn, (pool) => findLink(pool, 'setup', digest));
      if (setup === null || setup instanceof ApiError) return setup ?? NOT_VALID;
      const passwordHash = await signIn.passwords.hash(password);
      if (passwordHash instanceof ApiError) return passwordHash;
      const first = readModel.accountNamed(FIRST_ACCOUNT);
      const account = first ? { joins: first.id } : { name: name ?? FIRST_ACCOUNT, plan: null };
      const arrived = await registerMember(
        seat,
        null,
        { email, passwordHash, role: 'administrator', account },
        async (client) => {
          await lockSetup(client);
          if (!(await consumeLink(client, 'setup', digest)) || (await hasAdministrator(client)))
            return NOT_VALID;
          await deleteLinks(client, 'setup');
          return null;
        },
        { sessions: signIn.sessions, request, response },
      );
      if (!(arrived instanceof ApiError)) deleteSetupFile(config);
      return me(request, arrived);
    }),

    publicRoute('post', '/api/registration', Register, async ({ body, request, response }) => {
      const startMs = performance.now();
      const isOpen = readModel.registration.policy === 'open';
      if (!isOpen && body.invitation === undefined) return new ApiError('registration_closed');
      const landed = landing();
      if (landed instanceof ApiError) return landed;
      const refused = await signIn.throttle.count('registration', networkOf(request, config.trustedProxies));
      if (refused) return refused;
      const digest = body.invitation === undefined ? null : digestOf(body.invitation);
      const invitation =
        digest === null ? null : await queryAnonymously(signIn, (pool) => readInvitation(pool, digest));
      if (invitation instanceof ApiError) return invitation;
      if (digest !== null && invitation === null) return NOT_VALID;
      const failed = await register(body, invitation, digest);
      await untilStep(startMs);
      if (failed) return failed;
      sendJson(response, 202, { object: 'registration' });
      return null;
    }),

    publicRoute('post', '/api/invitation', ReadInvitation, async ({ body }) => {
      const invitation = await queryAnonymously(signIn, (pool) =>
        readInvitation(pool, digestOf(body.secret)),
      );
      if (invitation === null || invitation instanceof ApiError) return invitation ?? NOT_VALID;
      const shown: InvitationDetail = {
        object: 'invitation',
        role: invitation.role,
        account_name:
          invitation.account === null ? null : (readModel.account(invitation.account)?.name ?? null),
        expires_at: invitation.expiresAt.toISOString(),
      };
      return shown;
    }),

    publicRoute('post', '/api/invitation/accept', AcceptInvitation, async ({ body, request, response }) => {
      const { secret, email, password, account_name: name } = body;
      const digest = digestOf(secret);
      const invitation = await queryAnonymously(signIn, (pool) => readInvitation(pool, digest));
      if (invitation === null || invitation instanceof ApiError) return invitation ?? NOT_VALID;
      if (invitation.account === null && name === undefined)
        return new ApiError('missing_field', {
          message: 'This invitation is for an account of your own: give it a name.',
          param: 'account_name',
        });
      const account = accountOf(invitation, name ?? '');
      if (account instanceof ApiError) return account;
      const passwordHash = await signIn.passwords.hash(password);
      if (passwordHash instanceof ApiError) return passwordHash;
      const arrived = await registerMember(
        seat,
        null,
        { email, passwordHash, role: invitation.role, account, invitation: invitation.id },
        async (client) => ((await consumeLink(client, 'invitation', digest)) ? null : NOT_VALID),
        { sessions: signIn.sessions, request, response },
      );
      // An invitation must not serve to ask for addresses one by one.
      if (arrived === EMAIL_TAKEN)
        return (
          (await signIn.throttle.count('registration', networkOf(request, config.trustedProxies))) ??
          EMAIL_TAKEN
        );
      return me(request, arrived);
    }),
  ];
}

/** Waits for the next of the moments at which registrations are answered. */
async function untilStep(startMs: number): Promise<void> {
  const spentMs = performance.now() - startMs;
  await wait(Math.ceil(spentMs / REGISTRATION_STEP_MS) * REGISTRATION_STEP_MS - spentMs);
}
