import { queryOptions } from '@tanstack/react-query';
import type { IdentityProviderRow, SignInSettings } from '#server/contract/members.ts';
import type { InvitationRow, RegistrationSettings } from '#server/contract/members.ts';
import { api, type List, type LongList } from '../../lib/api/api.ts';

/** Pending invitations: not used, revoked or expired. */
export const invitationsQuery = queryOptions({
  queryKey: ['invitations'],
  queryFn: ({ signal }) => api<LongList<InvitationRow>>('GET', '/api/v1/invitations', undefined, signal),
});

export const registrationQuery = queryOptions({
  queryKey: ['registration'],
  queryFn: ({ signal }) => api<RegistrationSettings>('GET', '/api/v1/registration', undefined, signal),
});

export const providersQuery = queryOptions({
  queryKey: ['identity-providers'],
  queryFn: async ({ signal }) =>
    (await api<List<IdentityProviderRow>>('GET', '/api/v1/identity-providers', undefined, signal)).data,
});

export const signInQuery = queryOptions({
  queryKey: ['sign-in-settings'],
  queryFn: ({ signal }) => api<SignInSettings>('GET', '/api/v1/sign-in-settings', undefined, signal),
});
