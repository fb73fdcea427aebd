import { ChangeReply, longListOf } from '#server/contract/parts.ts';
import { ChangeMember, CreatedLink, MemberRow, MembersQuery } from '#server/contract/members.ts';
import type { Member } from '#db/fold/member.ts';
import { memberById, readEmails } from '#db/members/members.ts';
import { lastSeen } from '#db/members/sessions.ts';
import { parseId } from '#server/dashboard/change.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import {
  ADMINISTRATORS,
  ANY_ROLE,
  type ApiRoute,
  memberRoute,
  route,
  scopeOfMember,
} from '#server/dashboard/gate.ts';
import { createdLink, dashboardOrigin } from '#server/dashboard/members/created-link.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { MEMBERS_LISTED_MAX } from '#server/sign-in/bounds.ts';
import { changeRole, makeResetLink, removeMember } from '#server/sign-in/member-changes.ts';
import { change } from '#server/sign-in/transaction.ts';

/** Routes for members: their roles, their removal, and links to reset their passwords. */
export function memberRoutes(dashboard: Dashboard): ApiRoute[] {
  return [
    listMembers(dashboard),
    changeMemberRole(dashboard),
    deleteMember(dashboard),
    createResetLink(dashboard),
  ];
}

function listMembers({ signIn, relay: { readModel } }: Dashboard): ApiRoute {
  async function rows(members: readonly Member[], showEmails: boolean): Promise<MemberRow[]> {
    const ids = members.map(({ id }) => id);
    const [emails, seen] = await Promise.all([
      showEmails ? readEmails(signIn.pool, ids) : null,
      lastSeen(signIn.pool, ids),
    ]);
    return members.map(({ id, account, role, hasTotp, addedAt }) => ({
      id,
      email: emails?.get(id) ?? null,
      account,
      account_name: readModel.account(account)?.name ?? '',
      role,
      has_totp: hasTotp,
      created_at: addedAt.toISOString(),
      last_seen_at: seen.get(id)?.toISOString() ?? null,
    }));
  }

  return route(
    'get',
    '/api/v1/members',
    'accounts:read',
    ANY_ROLE,
    { query: MembersQuery, reply: longListOf(MemberRow) },
    async ({ request }, who) => {
      const filter = request.query['account'];
      const scope = scopeOfMember(who);
      const members = [...readModel.members].filter(
        ({ state, account }) =>
          state === 'active' &&
          (scope.account === null || account === scope.account) &&
          (filter === undefined || account === filter),
      );
      const listed = members.slice(-MEMBERS_LISTED_MAX);
      return {
        object: 'list',
        data: await rows(listed, who.role !== 'auditor'),
        rows_omitted: members.length - listed.length,
      };
    },
  );
}

function changeMemberRole({ control, relay: { readModel } }: Dashboard): ApiRoute {
  return memberRoute(
    'patch',
    '/api/v1/members/:member',
    ADMINISTRATORS,
    { body: ChangeMember, reply: ChangeReply },
    async ({ body, params }, who) => {
      const member = parseId(params, 'member');
      if (member instanceof ApiError) return member;
      return change({ control, readModel }, who.actor, (writer, client) =>
        changeRole(writer, client, member, body.role),
      );
    },
  );
}

function deleteMember({ control, relay: { readModel } }: Dashboard): ApiRoute {
  return memberRoute(
    'delete',
    '/api/v1/members/:member',
    ADMINISTRATORS,
    { reply: ChangeReply },
    async ({ params }, who) => {
      const member = parseId(params, 'member');
      if (member instanceof ApiError) return member;
      return change({ control, readModel }, who.actor, (writer, client) =>
        removeMember(writer, client, member),
      );
    },
  );
}

function createResetLink(dashboard: Dashboard): ApiRoute {
  const {
    control,
    signIn,
    relay: { readModel },
  } = dashboard;
  return memberRoute(
    'post',
    '/api/v1/members/:member/reset',
    ADMINISTRATORS,
    { reply: CreatedLink },
    async ({ params, request }, who) => {
      const member = parseId(params, 'member');
      if (member instanceof ApiError) return member;
      const row = await memberById(signIn.pool, member);
      if (!row) return new ApiError('not_found');
      const origin = dashboardOrigin(dashboard, request);
      const link = await change({ control, readModel }, who.actor, (writer, client) =>
        makeResetLink(writer, client, member, { origin, by: who.member.id }),
      );
      if (link instanceof ApiError) return link;
      return createdLink(link, signIn.mail, {
        to: row.email,
        subject: 'Reset your Daybook password',
        text: `Reset your password with this link. It works once and expires in one hour:\n\n${link.link}\n`,
      });
    },
  );
}
