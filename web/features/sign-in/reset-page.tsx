import type { Me } from '#server/contract/session.ts';
import { api, ApiError } from '../../lib/api/api.ts';
import { PasswordField } from '../../ui/form/password-field.tsx';
import { fieldError } from '../../ui/problem.tsx';
import { AuthForm, textOf } from './auth-form.tsx';
import { AuthPage, ToSignIn } from './auth-page.tsx';
import { useAfterSignIn } from './after-sign-in.ts';
import { useAction } from './use-action.ts';
import { useLinkToken } from './use-link-token.ts';

/** The page behind a reset link. */
export function ResetPage() {
  const token = useLinkToken();
  const enter = useAfterSignIn();
  const reset = useAction(async (form: FormData) =>
    enter(
      await api<Me>('POST', '/api/v1/password/reset', { secret: token, password: textOf(form, 'password') }),
    ),
  );
  if (token === null) {
    return (
      <AuthPage
        title="Set new password"
        about="The link is incomplete. Open the full reset link, including the part after #."
        foot={<ToSignIn />}
      />
    );
  }
  // The password is changed, but with two-factor authentication the link alone does not sign in.
  if (reset.error instanceof ApiError && reset.error.code === 'totp_required') {
    return (
      <AuthPage title="Password changed" foot={<ToSignIn />}>
        <p role="status">{reset.error.message}</p>
      </AuthPage>
    );
  }
  return (
    <AuthPage
      title="Set new password"
      about="This signs you in here and ends all your other sessions."
      foot={<ToSignIn />}
    >
      <AuthForm does={reset} action="Set password" fields={['password']}>
        <PasswordField
          kind="new"
          label="New password"
          name="password"
          error={fieldError(reset.error, 'password')}
        />
      </AuthForm>
    </AuthPage>
  );
}
