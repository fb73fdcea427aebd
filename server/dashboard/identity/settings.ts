import { ProviderName } from '#db/events/identity/identity-events.ts';
import { providersWithSecret } from '#db/members/identities.ts';
import {
  PutSignInSettings,
  SignInSettings,
  IdentityProviderRow,
  PutIdentityProvider,
} from '#server/contract/members.ts';
import type { Change } from '#server/contract/keys.ts';
import { ChangeReply, listOf } from '#server/contract/parts.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import {
  ADMINISTRATORS,
  ADMINISTRATORS_AND_AUDITORS,
  type ApiRoute,
  memberRoute,
} from '#server/dashboard/gate.ts';
import { redirectUriOf } from '#server/dashboard/identity/sign-in.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { IdentityControl } from '#server/sign-in/oidc/identity-control.ts';
import { change } from '#server/sign-in/transaction.ts';

/** Routes for identity providers and the password policy. They give permissions, so no key may use them. */
export function identityRoutes(dashboard: Dashboard): ApiRoute[] {
  const {
    control,
    signIn,
    relay: { readModel, pepper },
  } = dashboard;

  return [
    memberRoute(
      'get',
      '/api/v1/identity-providers',
      ADMINISTRATORS_AND_AUDITORS,
      { reply: listOf(IdentityProviderRow) },
      async () => {
        const withSecret = await providersWithSecret(signIn.pool);
        const data = readModel.identities.active.map(({ name, terms }): IdentityProviderRow => ({
          name,
          ...terms,
          has_client_secret: withSecret.has(name),
          redirect_uri: redirectUriOf(dashboard, name),
        }));
        return { object: 'list', data };
      },
    ),

    memberRoute(
      'put',
      '/api/v1/identity-providers/:provider',
      ADMINISTRATORS,
      { body: PutIdentityProvider, reply: ChangeReply },
      async ({ params, body }, { actor }) => {
        const name = ProviderName.safeParse(params['provider']);
        if (!name.success)
          return new ApiError('invalid_value', {
            message: `The name ${name.error.issues[0]?.message}.`,
            param: 'provider',
          });
        const { client_secret: secret, ...terms } = body;
        return change<Change>({ control, readModel }, actor, (writer, client) =>
          new IdentityControl(writer, client).configure(pepper, name.data, terms, secret),
        );
      },
    ),

    memberRoute(
      'delete',
      '/api/v1/identity-providers/:provider',
      ADMINISTRATORS,
      { reply: ChangeReply },
      async ({ params }, { actor, session }) => {
        const name = ProviderName.safeParse(params['provider']);
        if (!name.success) return new ApiError('not_found');
        return change<Change>({ control, readModel }, actor, (writer, client) =>
          new IdentityControl(writer, client).remove(pepper, name.data, session),
        );
      },
    ),

    memberRoute(
      'get',
      '/api/v1/sign-in-settings',
      ADMINISTRATORS_AND_AUDITORS,
      { reply: SignInSettings },
      async () => {
        const { passwords } = readModel.identities.signIn;
        return { object: 'sign_in_settings', passwords } satisfies SignInSettings;
      },
    ),

    memberRoute(
      'put',
      '/api/v1/sign-in-settings',
      ADMINISTRATORS,
      { body: PutSignInSettings, reply: ChangeReply },
      ({ body }, { actor }) =>
        change<Change>({ control, readModel }, actor, (writer, client) =>
          new IdentityControl(writer, client).setPasswords(body.passwords),
        ),
    ),
  ];
}
