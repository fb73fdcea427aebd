import type { Me } from '#server/contract/session.ts';
import { api, ApiError } from '../../lib/api/api.ts';
import { Waiting } from '../../ui/layout/parts.tsx';
import { PasswordField } from '../../ui/form/password-field.tsx';
import { fieldError, Problem } from '../../ui/problem.tsx';
import { AccountNameField } from './account-name-field.tsx';
import { AuthForm, textOf } from './auth-form.tsx';
import { AuthPage, ToSignIn } from './auth-page.tsx';
import { EmailField } from './email-field.tsx';
import { useAfterSignIn } from './after-sign-in.ts';
import { useAction } from './use-action.ts';
import { useWelcome } from './use-fetched.ts';

export function RegisterPage() {
  const { data, error, retry } = useWelcome();
  const foot = (
    <p>
      Already have an account? <ToSignIn />
    </p>
  );
  if (error !== null) {
    return (
      <AuthPage title="Sign up" foot={foot}>
        <Problem error={error} title="Couldn’t load this page" onRetry={retry} />
      </AuthPage>
    );
  }
  if (!data) {
    return (
      <AuthPage title="Sign up" foot={foot}>
        <Waiting height="h-72" />
      </AuthPage>
    );
  }
  if (data.needs_setup) {
    return (
      <AuthPage
        title="Sign up"
        about="Not set up yet. Open the setup link that the server printed at startup."
        foot={foot}
      />
    );
  }
  if (data.registration !== 'open') {
    const about =
      data.registration === 'invite'
        ? 'Sign-up requires an invitation. Ask an administrator for a link.'
        : 'Sign-up is closed. Ask an administrator for an account.';
    return <AuthPage title="Sign up" about={about} foot={foot} />;
  }
  return (
    <AuthPage title="Sign up" about="Create an account with its own API keys and limits." foot={foot}>
      <RegisterForm />
    </AuthPage>
  );
}

function RegisterForm() {
  const enter = useAfterSignIn();
  const register = useAction(async (form: FormData) => {
    const [email, password] = [textOf(form, 'email'), textOf(form, 'password')];
    await api('POST', '/api/v1/registration', {
      email,
      password,
      account_name: textOf(form, 'account_name'),
    });
    // The response is the same for an existing address, to not reveal which addresses are registered.
    const me = await api<Me>('POST', '/api/v1/session', { email, password }).catch((error: unknown) =>
      Promise.reject(explained(error)),
    );
    await enter(me);
  });
  return (
    <AuthForm does={register} action="Sign up" fields={['email', 'password', 'account_name']}>
      <EmailField error={register.error} />
      <PasswordField
        kind="new"
        label="Password"
        name="password"
        error={fieldError(register.error, 'password')}
      />
      <AccountNameField error={register.error} />
    </AuthForm>
  );
}

/** Explains a failed sign-in right after sign-up. */
function explained(error: unknown): unknown {
  if (!(error instanceof ApiError)) return error;
  const { status, code } = error;
  if (code === 'invalid_credentials')
    return new ApiError('Couldn’t sign up with this email. If you already have an account, sign in.', {
      status,
      code,
    });
  if (code === 'totp_required')
    return new ApiError(
      'This email already has an account with two-factor authentication. Sign in instead.',
      { status, code },
    );
  return error;
}
