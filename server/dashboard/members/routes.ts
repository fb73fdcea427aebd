import type { Member } from '#db/fold/member.ts';
import { evolveRegistration, REGISTRATION_FIRST } from '#db/fold/registration.ts';
import { publicId } from '#db/ids.ts';
import { deleteInvitation, listInvitations } from '#db/members/links.ts';
import { readStream } from '#db/log/read.ts';
import { lockAdministrators, memberById, readEmails } from '#db/members/members.ts';
import { lastSeen } from '#db/members/sessions.ts';
import { parseId } from '#server/dashboard/change.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import type { Change } from '#server/contract/keys.ts';
import {
  ChangeMember,
  CreateInvitation,
  type InvitationRow,
  type CreatedLink,
  type MemberRow,
  PutRegistration,
  type RegistrationSettings,
} from '#server/contract/members.ts';
import {
  ADMINISTRATORS,
  type ApiRoute,
  ANY_ROLE,
  ADMINISTRATORS_AND_AUDITORS,
  route,
  scopeOfMember,
} from '#server/dashboard/gate.ts';
import type { SignedIn } from '#server/sign-in/signed-in.ts';
import { requirePlan } from '#server/decide/plan.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { MEMBERS_LISTED_MAX } from '#server/sign-in/bounds.ts';
import { makeLink } from '#server/sign-in/links.ts';
import { changeRole, makeResetLink, removeMember } from '#server/sign-in/member-changes.ts';
import { originFor } from '#server/sign-in/origin.ts';
import { change } from '#server/sign-in/transaction.ts';

const NO_PLAN = new ApiError('invalid_value', {
  message:
    'Choose a plan first: without one, strangers could call every model at your cost, without a limit.',
  param: 'plan',
});

const actorOf = ({ member }: SignedIn): string => `member/${member.id}`;

/** Who is in which account, who is invited, and who may come by themselves. */
export function memberRoutes(dashboard: Dashboard): ApiRoute[] {
  const { signIn, config } = dashboard;
  const readModel = dashboard.relay.readModel;
  const seat = { control: dashboard.control, readModel };
  const origin = (request: Parameters<typeof originFor>[0]): string =>
    originFor(request, config, dashboard.origin());
  const accountName = (id: string | null): string | null =>
    id === null ? null : (readModel.account(id)?.name ?? null);

  async function rows(members: readonly Member[], showsEmails: boolean): Promise<MemberRow[]> {
    const ids = members.map(({ id }) => id);
    const [emails, seen] = await Promise.all([
      showsEmails ? readEmails(signIn.pool, ids) : null,
      lastSeen(signIn.pool, ids),
    ]);
    return members.map(({ id, account, role, hasTotp, addedAt }) => ({
      id,
      email: emails?.get(id) ?? null,
      account,
      account_name: accountName(account) ?? '',
      role,
      has_totp: hasTotp,
      created_at: addedAt.toISOString(),
      last_seen_at: seen.get(id)?.toISOString() ?? null,
    }));
  }

  return [
    route('get', '/api/members', ANY_ROLE, null, async ({ request }, who) => {
      const narrowed = request.query['account'];
      const scope = scopeOfMember(who);
      const members = [...readModel.members].filter(
        ({ state, account }) =>
          state === 'active' &&
          (scope.account === null || account === scope.account) &&
          (narrowed === undefined || account === narrowed),
      );
      const listed = members.slice(-MEMBERS_LISTED_MAX);
      return {
        object: 'list',
        data: await rows(listed, who.member.role !== 'auditor'),
        rows_omitted: members.length - listed.length,
      };
    }),

    route('patch', '/api/members/:member', ADMINISTRATORS, ChangeMember, async ({ body, params }, who) => {
      const member = parseId(params, 'member');
      return member instanceof ApiError
        ? member
        : change(seat, actorOf(who), (control, client) => changeRole(control, client, member, body.role));
    }),

    route('delete', '/api/members/:member', ADMINISTRATORS, null, async ({ params }, who) => {
      const member = parseId(params, 'member');
      return member instanceof ApiError
        ? member
        : change(seat, actorOf(who), (control, client) => removeMember(control, client, member));
    }),

    route('post', '/api/members/:member/reset', ADMINISTRATORS, null, async ({ params, request }, who) => {
      const member = parseId(params, 'member');
      if (member instanceof ApiError) return member;
      const row = await memberById(signIn.pool, member);
      if (!row) return new ApiError('not_found');
      const made = await change(seat, actorOf(who), (control, client) =>
        makeResetLink(control, client, member, { origin: origin(request), by: who.member.id }),
      );
      if (made instanceof ApiError) return made;
      const text = `An administrator made this link, by which you choose a new password. It is good once, for an hour:\n\n${made.link}\n`;
      const wasSent = (await signIn.mail?.send(row.email, 'Choose a new Daybook password', text)) ?? false;
      const answer: CreatedLink = {
        object: 'link',
        id: made.id,
        link: made.link,
        expires_at: made.expiresAt.toISOString(),
        email_sent: wasSent,
        event: made.event,
      };
      return answer;
    }),

    route('get', '/api/invitations', ADMINISTRATORS_AND_AUDITORS, null, async () => {
      const { invitations, omitted } = await listInvitations(signIn.pool, MEMBERS_LISTED_MAX);
      const data = invitations.map(({ id, account, role, createdAt, expiresAt }): InvitationRow => ({
        id,
        account,
        account_name: accountName(account),
        role,
        created_at: createdAt.toISOString(),
        expires_at: expiresAt.toISOString(),
      }));
      return { object: 'list', data, rows_omitted: omitted };
    }),

    route('post', '/api/invitations', ADMINISTRATORS, CreateInvitation, async ({ body, request }, who) => {
      const { account, role, email } = body;
      if (account !== null && !readModel.account(account))
        return new ApiError('not_found', { message: 'There is no such account.', param: 'account' });
      const id = publicId();
      const made = await change(seat, actorOf(who), async (control, client) => {
        // What it lets somebody do nobody may give who is no administrator any more.
        if (!(await lockAdministrators(client)).includes(who.member.id))
          return new ApiError('role_not_permitted');
        const link = await makeLink(
          client,
          origin(request),
          { kind: 'invitation', account, role },
          who.member.id,
          id,
        );
        const event = {
          type: 'invitation.created' as const,
          invitation: id,
          ...(account === null ? {} : { joins: account }),
          role,
          expires_at: link.expiresAt.toISOString(),
          actor: control.actor,
        };
        const position = await control.append([{ event, version: 1 }]);
        return { position, done: { ...link, event: { type: event.type, position } } };
      });
      if (made instanceof ApiError) return made;
      const text = `You are invited to Daybook. This link is good once, for a day:\n\n${made.link}\n`;
      const wasSent =
        email === undefined
          ? false
          : ((await signIn.mail?.send(email, 'You are invited to Daybook', text)) ?? false);
      const answer: CreatedLink = {
        object: 'link',
        id,
        link: made.link,
        expires_at: made.expiresAt.toISOString(),
        email_sent: wasSent,
        event: made.event,
      };
      return answer;
    }),

    route('delete', '/api/invitations/:invitation', ADMINISTRATORS, null, async ({ params }, who) => {
      const invitation = parseId(params, 'invitation');
      if (invitation instanceof ApiError) return invitation;
      return change<Change>(seat, actorOf(who), async (control, client) => {
        if (!(await deleteInvitation(client, invitation))) return new ApiError('not_found');
        const position = await control.append([
          { event: { type: 'invitation.revoked', invitation, actor: control.actor }, version: 2 },
        ]);
        return { position, done: { event: { type: 'invitation.revoked', position } } };
      });
    }),

    route('get', '/api/registration', ADMINISTRATORS_AND_AUDITORS, null, async () => {
      const { policy, plan } = readModel.registration;
      const shown: RegistrationSettings = { object: 'registration', policy, plan };
      return shown;
    }),

    route('put', '/api/registration', ADMINISTRATORS, PutRegistration, ({ body }, who) =>
      change<Change>(seat, actorOf(who), async (control, client) => {
        const { policy, plan } = body;
        if (policy === 'open' && plan === null) return NO_PLAN;
        const { state } = plan === null ? { state: null } : requirePlan(await control.loadPlan(plan), plan);
        if (state === 'retired')
          return new ApiError('not_allowed', {
            message: `Plan "${plan}" is retired; no account can land on it.`,
            param: 'plan',
          });
        let registration = REGISTRATION_FIRST;
        for (const stored of await readStream(client, 'registration'))
          registration = evolveRegistration(stored);
        if (registration.policy === policy && registration.plan === plan)
          return { position: null, done: { event: null } };
        const type = 'registration.changed';
        const position = await control.append([
          { event: { type, policy, plan, actor: control.actor }, version: registration.version + 1 },
        ]);
        return { position, done: { event: { type, position } } };
      }),
    ),
  ];
}
