import { objectReply } from '#server/contract/parts.ts';
import {
  AcceptInvitation,
  InvitationDetail,
  Me,
  ReadInvitation,
  Register,
  SetUp,
} from '#server/contract/session.ts';
import { setTimeout as wait } from 'node:timers/promises';
import type { z } from 'zod';
import type { IncomingMessage } from 'node:http';
import type { Role } from '#db/events/parts.ts';
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
import { type ApiRoute, publicRoute } from '#server/dashboard/gate.ts';
import { readMe } from '#server/dashboard/session/me.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { FIRST_ACCOUNT } from '#server/process/first-key.ts';
import { registerMember, type Registration, EMAIL_TAKEN } from '#server/sign-in/registration.ts';
import { digestOf } from '#server/sign-in/cookie.ts';
import { queryAnonymously } from '#server/sign-in/store.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';
import { networkOf } from '#server/sign-in/origin.ts';
import { deleteSetupFile } from '#server/sign-in/setup.ts';

const LINK_NOT_VALID = new ApiError('invalid_link');

/** Routes that create members: setup, registration, and invitations that are accepted. */
export function registrationRoutes(dashboard: Dashboard): ApiRoute[] {
  return [setUp(dashboard), register(dashboard), invitationDetail(dashboard), acceptInvitation(dashboard)];
}

/** The first administrator, by the setup link; signs in. */
function setUp(dashboard: Dashboard): ApiRoute {
  const {
    control,
    signIn,
    config,
    relay: { readModel },
  } = dashboard;
  return publicRoute(
    'post',
    '/api/v1/setup',
    { body: SetUp, reply: Me },
    async ({ body, request, response }) => {
      const { secret, email, password, account_name: name } = body;
      const digest = digestOf(secret);
      const link = await queryAnonymously(signIn, (pool) => findLink(pool, 'setup', digest));
      if (link === null || link instanceof ApiError) return link ?? LINK_NOT_VALID;
      const passwordHash = await signIn.passwords.hash(password);
      if (passwordHash instanceof ApiError) return passwordHash;
      const first = readModel.accountNamed(FIRST_ACCOUNT);
      const account = first ? { joins: first.id } : { name: name ?? FIRST_ACCOUNT, plan: null };
      const registered = await registerMember(
        { control, readModel },
        null,
        { email, passwordHash, role: 'administrator', account },
        async (client) => {
          await lockSetup(client);
          if (!(await consumeLink(client, 'setup', digest)) || (await hasAdministrator(client)))
            return LINK_NOT_VALID;
          await deleteLinks(client, 'setup');
          return null;
        },
        { sessions: signIn.sessions, request, response },
      );
      if (!(registered instanceof ApiError)) deleteSetupFile(config);
      return replyMe(dashboard, request, registered);
    },
  );
}

/**
 * A new member, by an invitation or by open registration. The reply and its time are the same whether the
 * email was free or taken.
 */
function register(dashboard: Dashboard): ApiRoute {
  const {
    signIn,
    config,
    relay: { readModel },
  } = dashboard;
  return publicRoute(
    'post',
    '/api/v1/registration',
    { body: Register, reply: objectReply('registration') },
    async ({ body, request, response }) => {
      const startMs = performance.now();
      const isOpen = readModel.registration.policy === 'open';
      const off = passwordsOff(readModel, 'member');
      if (off && body.invitation === undefined) return off;
      if (!isOpen && body.invitation === undefined) return new ApiError('registration_closed');
      const plan = defaultPlan(readModel);
      if (plan instanceof ApiError) return plan;
      const throttled = await signIn.throttle.count(
        'registration',
        networkOf(request, config.trustedProxies),
      );
      if (throttled) return throttled;
      const digest = body.invitation === undefined ? null : digestOf(body.invitation);
      const invitation =
        digest === null ? null : await queryAnonymously(signIn, (pool) => readInvitation(pool, digest));
      if (invitation instanceof ApiError) return invitation;
      if (digest !== null && invitation === null) return LINK_NOT_VALID;
      const refused = invitation && passwordsOff(readModel, invitation.role);
      if (refused) return refused;
      const failed = await registerWithoutSession(dashboard, body, invitation, digest);
      await untilStep(startMs);
      if (failed) return failed;
      sendJson(response, 202, { object: 'registration' });
      return null;
    },
  );
}

/** The role and account of an invitation, before it is accepted. */
function invitationDetail({ signIn, relay: { readModel } }: Dashboard): ApiRoute {
  return publicRoute(
    'post',
    '/api/v1/invitation',
    { body: ReadInvitation, reply: InvitationDetail },
    async ({ body }) => {
      const digest = digestOf(body.secret);
      const invitation = await queryAnonymously(signIn, (pool) => readInvitation(pool, digest));
      if (invitation === null || invitation instanceof ApiError) return invitation ?? LINK_NOT_VALID;
      const { role, account, expiresAt } = invitation;
      return {
        object: 'invitation',
        role,
        account_name: account === null ? null : (readModel.account(account)?.name ?? null),
        expires_at: expiresAt.toISOString(),
      } satisfies InvitationDetail;
    },
  );
}

/** Accepts an invitation; signs in. */
function acceptInvitation(dashboard: Dashboard): ApiRoute {
  const {
    control,
    signIn,
    config,
    relay: { readModel },
  } = dashboard;
  return publicRoute(
    'post',
    '/api/v1/invitation/accept',
    { body: AcceptInvitation, reply: Me },
    async ({ body, request, response }) => {
      const { secret, email, password, account_name: name } = body;
      const digest = digestOf(secret);
      const invitation = await queryAnonymously(signIn, (pool) => readInvitation(pool, digest));
      if (invitation === null || invitation instanceof ApiError) return invitation ?? LINK_NOT_VALID;
      const off = passwordsOff(readModel, invitation.role);
      if (off) return off;
      if (invitation.account === null && name === undefined)
        return new ApiError('missing_required_parameter', {
          message: 'This invitation creates a new account. Enter a name for it.',
          param: 'account_name',
        });
      const account = accountFor(readModel, invitation, name ?? '');
      if (account instanceof ApiError) return account;
      const passwordHash = await signIn.passwords.hash(password);
      if (passwordHash instanceof ApiError) return passwordHash;
      const registered = await registerMember(
        { control, readModel },
        null,
        { email, passwordHash, role: invitation.role, account, invitation: invitation.id },
        async (client) => ((await consumeLink(client, 'invitation', digest)) ? null : LINK_NOT_VALID),
        { sessions: signIn.sessions, request, response },
      );
      if (registered !== EMAIL_TAKEN) return replyMe(dashboard, request, registered);
      // Throttled: an invitation must not let its holder enumerate the emails of members.
      const network = networkOf(request, config.trustedProxies);
      return (await signIn.throttle.count('registration', network)) ?? EMAIL_TAKEN;
    },
  );
}

/** Registers a member who signs in later. @returns an error, unless it would reveal a known email. */
async function registerWithoutSession(
  { control, signIn, relay: { readModel } }: Dashboard,
  body: z.output<typeof Register>,
  invitation: Invitation | null,
  digest: Buffer | null,
): Promise<ApiError | null> {
  const passwordHash = await signIn.passwords.hash(body.password);
  if (passwordHash instanceof ApiError) return passwordHash;
  const account = accountFor(readModel, invitation ?? { account: null }, body.account_name);
  if (account instanceof ApiError) return account;
  const registration: Registration = {
    email: body.email,
    passwordHash,
    role: invitation?.role ?? 'member',
    account,
    ...(invitation ? { invitation: invitation.id } : {}),
  };
  const registered = await registerMember(
    { control, readModel },
    'registration',
    registration,
    async (client) =>
      digest === null || (await consumeLink(client, 'invitation', digest)) ? null : LINK_NOT_VALID,
    null,
  );
  return registered instanceof ApiError && registered !== EMAIL_TAKEN ? registered : null;
}

/** New members sign in with a password, which may be off for their role. */
const passwordsOff = ({ identities }: ReadModel, role: Role): ApiError | null =>
  identities.signIn.passwords === 'everyone' || role === 'administrator'
    ? null
    : new ApiError('password_sign_in_off', {
        message: 'Passwords are off. Sign in through your identity provider.',
      });

/** The plan of new accounts. A retired plan closes registration, since no plan means no limits. */
function defaultPlan(readModel: ReadModel): { plan: string | null } | ApiError {
  const { plan } = readModel.registration;
  if (plan === null || readModel.plan(plan)?.state === 'active') return { plan };
  return new ApiError('registration_closed', {
    message: 'Registration is closed: the plan for new accounts is retired. Ask an administrator.',
  });
}

/** The account that an invitation leads to: an existing one, or a new one with this name. */
function accountFor(
  readModel: ReadModel,
  { account }: Pick<Invitation, 'account'>,
  name: string,
): Registration['account'] | ApiError {
  if (account !== null) return { joins: account };
  const plan = defaultPlan(readModel);
  return plan instanceof ApiError ? plan : { name, ...plan };
}

/** The new member, in their first session. */
async function replyMe(
  dashboard: Dashboard,
  request: IncomingMessage,
  registered: { member: string; session: string | null } | ApiError,
): Promise<Me | ApiError> {
  if (registered instanceof ApiError) return registered;
  const who = await dashboard.signIn.sessions.whoIs(registered.member);
  if (who instanceof ApiError) return who;
  return readMe(dashboard, request, { ...who, session: registered.session ?? '' });
}

/** Waits for the next multiple of the step, so that a reply's time reveals nothing. */
async function untilStep(startMs: number): Promise<void> {
  const spentMs = performance.now() - startMs;
  await wait(Math.ceil(spentMs / REGISTRATION_STEP_MS) * REGISTRATION_STEP_MS - spentMs);
}
