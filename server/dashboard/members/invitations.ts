import { ChangeReply, longListOf } from '#server/contract/parts.ts';
import { CreateInvitation, CreatedLink, InvitationRow } from '#server/contract/members.ts';
import { publicId } from '#db/ids.ts';
import { deleteInvitation, listInvitations } from '#db/members/links.ts';
import { lockAdministrators } from '#db/members/members.ts';
import type { Change } from '#server/contract/keys.ts';
import { parseId } from '#server/dashboard/change.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import {
  ADMINISTRATORS,
  ADMINISTRATORS_AND_AUDITORS,
  type ApiRoute,
  memberRoute,
} from '#server/dashboard/gate.ts';
import { createdLink, dashboardOrigin } from '#server/dashboard/members/created-link.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { MEMBERS_LISTED_MAX } from '#server/sign-in/bounds.ts';
import { makeLink } from '#server/sign-in/links.ts';
import { change } from '#server/sign-in/transaction.ts';

/** Routes for invitations to an account, or to create one. */
export function invitationRoutes(dashboard: Dashboard): ApiRoute[] {
  return [listOpenInvitations(dashboard), createInvitation(dashboard), revokeInvitation(dashboard)];
}

function listOpenInvitations({ signIn, relay: { readModel } }: Dashboard): ApiRoute {
  return memberRoute(
    'get',
    '/api/v1/invitations',
    ADMINISTRATORS_AND_AUDITORS,
    { reply: longListOf(InvitationRow) },
    async () => {
      const { invitations, omitted } = await listInvitations(signIn.pool, MEMBERS_LISTED_MAX);
      const data = invitations.map(({ id, account, role, createdAt, expiresAt }): InvitationRow => ({
        id,
        account,
        account_name: account === null ? null : (readModel.account(account)?.name ?? null),
        role,
        created_at: createdAt.toISOString(),
        expires_at: expiresAt.toISOString(),
      }));
      return { object: 'list', data, rows_omitted: omitted };
    },
  );
}

function createInvitation(dashboard: Dashboard): ApiRoute {
  const {
    control,
    signIn,
    relay: { readModel },
  } = dashboard;
  return memberRoute(
    'post',
    '/api/v1/invitations',
    ADMINISTRATORS,
    { body: CreateInvitation, reply: CreatedLink },
    async ({ body, request }, { actor, member }) => {
      const { account, role, email } = body;
      if (account !== null && !readModel.account(account))
        return new ApiError('not_found', {
          message: "This account doesn't exist. Choose another.",
          param: 'account',
        });
      const id = publicId();
      const origin = dashboardOrigin(dashboard, request);
      const created = await change({ control, readModel }, actor, async (writer, client) => {
        // The creator may have lost the role since this request was authorized.
        const administrators = await lockAdministrators(client);
        if (!administrators.some(({ id: each }) => each === member.id))
          return new ApiError('insufficient_role');
        const link = await makeLink(client, origin, { kind: 'invitation', account, role }, member.id, id);
        const event = {
          type: 'invitation.created' as const,
          invitation: id,
          ...(account === null ? {} : { joins: account }),
          role,
          expires_at: link.expiresAt.toISOString(),
          actor: writer.actor,
        };
        const position = await writer.append([{ event, version: 1 }]);
        return { position, done: { ...link, event: { type: event.type, position } } };
      });
      if (created instanceof ApiError) return created;
      const text = `Join Daybook with this link. It works once and expires in one day:\n\n${created.link}\n`;
      return createdLink(
        created,
        signIn.mail,
        email === undefined ? null : { to: email, subject: 'Your invitation to Daybook', text },
      );
    },
  );
}

function revokeInvitation({ control, relay: { readModel } }: Dashboard): ApiRoute {
  return memberRoute(
    'delete',
    '/api/v1/invitations/:invitation',
    ADMINISTRATORS,
    { reply: ChangeReply },
    async ({ params }, { actor }) => {
      const invitation = parseId(params, 'invitation');
      if (invitation instanceof ApiError) return invitation;
      return change<Change>({ control, readModel }, actor, async (writer, client) => {
        if (!(await deleteInvitation(client, invitation))) return new ApiError('not_found');
        const type = 'invitation.revoked';
        const position = await writer.append([
          { event: { type, invitation, actor: writer.actor }, version: 2 },
        ]);
        return { position, done: { event: { type, position } } };
      });
    },
  );
}
