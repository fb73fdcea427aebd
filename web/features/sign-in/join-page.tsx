import type { InvitationDetail, Me } from '#server/contract/session.ts';
import { api, ApiError } from '../../lib/api/api.ts';
import { Waiting } from '../../ui/layout/parts.tsx';
import { PasswordField } from '../../ui/form/password-field.tsx';
import { fieldError, Problem } from '../../ui/problem.tsx';
import { When } from '../../ui/when.tsx';
import { AccountNameField } from './account-name-field.tsx';
import { AuthForm, textOf } from './auth-form.tsx';
import { AuthPage, ToSignIn } from './auth-page.tsx';
import { EmailField } from './email-field.tsx';
import { useAfterSignIn } from './after-sign-in.ts';
import { useAction } from './use-action.ts';
import { useFetched } from './use-fetched.ts';
import { useLinkToken } from './use-link-token.ts';

const FOOT = (
  <p>
    Already a member? <ToSignIn />
  </p>
);

/** The page behind an invitation link. */
export function JoinPage() {
  const token = useLinkToken();
  const look = useFetched(token, readInvitation);

  if (token === null)
    return (
      <AuthPage
        title="Join"
        about="The link is incomplete. Open the full invitation link, including the part after #."
        foot={FOOT}
      />
    );
  if (look.error) {
    return (
      <AuthPage title="Join" foot={FOOT}>
        <Problem
          error={look.error}
          title="Couldn’t open the invitation"
          {...(isRetryable(look.error) ? { onRetry: look.retry } : {})}
        />
      </AuthPage>
    );
  }
  if (!look.data) {
    return (
      <AuthPage title="Join" foot={FOOT}>
        <Waiting height="h-72" label="Loading invitation" />
      </AuthPage>
    );
  }
  return <JoinForm key={token} token={token} invitation={look.data} />;
}

const readInvitation = (token: string): Promise<InvitationDetail> =>
  api<InvitationDetail>('POST', '/api/v1/invitation', { secret: token });

/** An invalid link stays invalid. */
const isRetryable = (error: unknown): boolean =>
  !(error instanceof ApiError) || error.code !== 'invalid_link';

const ROLES = { member: 'a member', administrator: 'an administrator', auditor: 'an auditor' } as const;

function JoinForm({ token, invitation }: { token: string; invitation: InvitationDetail }) {
  const { role, account_name, expires_at } = invitation;
  const enter = useAfterSignIn();
  const join = useAction(async (form: FormData) => {
    const name = account_name === null ? { account_name: textOf(form, 'account_name') } : {};
    await enter(
      await api<Me>('POST', '/api/v1/invitation/accept', {
        secret: token,
        email: textOf(form, 'email'),
        password: textOf(form, 'password'),
        ...name,
      }),
    );
  });
  const about = (
    <p>
      {`You are invited as ${ROLES[role]}`}
      {account_name === null ? ' with a new account.' : ` of the account ${account_name}.`}
      {' The link expires '}
      <When time={expires_at} />.
    </p>
  );
  return (
    <AuthPage title="Join" about={about} foot={FOOT}>
      <AuthForm does={join} action="Join" fields={['email', 'password', 'account_name']}>
        <EmailField error={join.error} />
        <PasswordField
          kind="new"
          label="Password"
          name="password"
          error={fieldError(join.error, 'password')}
        />
        {account_name === null && <AccountNameField error={join.error} />}
      </AuthForm>
    </AuthPage>
  );
}
