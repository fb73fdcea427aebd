import { api } from '../../lib/api/api.ts';
import { Waiting } from '../../ui/layout/parts.tsx';
import { AuthForm, textOf } from './auth-form.tsx';
import { AuthPage, ToSignIn } from './auth-page.tsx';
import { EmailField } from './email-field.tsx';
import { useAction } from './use-action.ts';
import { useWelcome } from './use-fetched.ts';

export function ForgotPage() {
  const { data, error } = useWelcome();
  const ask = useAction((form: FormData) =>
    api<{ object: string }>('POST', '/api/v1/password/forgotten', { email: textOf(form, 'email') }),
  );
  const foot = <ToSignIn>Back to sign in</ToSignIn>;
  if (ask.result !== undefined) {
    return (
      <AuthPage title="Check your email" foot={foot}>
        <p role="status">
          If a member has this address, we sent a reset link. It works once and expires after one hour.
        </p>
      </AuthPage>
    );
  }
  if (!data && error === null) {
    return (
      <AuthPage title="Reset password" foot={foot}>
        <Waiting height="h-32" />
      </AuthPage>
    );
  }
  if (data?.can_send_mail === false) {
    return (
      <AuthPage
        title="Reset password"
        about="This relay doesn’t send email. Ask an administrator for a reset link."
        foot={foot}
      />
    );
  }
  return (
    <AuthPage title="Reset password" about="We email you a link to set a new password." foot={foot}>
      <AuthForm does={ask} action="Send reset link" fields={['email']}>
        <EmailField error={ask.error} />
      </AuthForm>
    </AuthPage>
  );
}
