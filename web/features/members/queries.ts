import { queryOptions } from '@tanstack/react-query';
import type { InvitationRow, RegistrationSettings } from '#server/contract/members.ts';
import { api, type LongList } from '../../lib/api/api.ts';

/** Pending invitations: not used, revoked or expired. */
export const invitationsQuery = queryOptions({
  queryKey: ['invitations'],
  queryFn: ({ signal }) => api<LongList<InvitationRow>>('GET', '/api/v1/invitations', undefined, signal),
});

export const registrationQuery = queryOptions({
  queryKey: ['registration'],
  queryFn: ({ signal }) => api<RegistrationSettings>('GET', '/api/v1/registration', undefined, signal),
});
