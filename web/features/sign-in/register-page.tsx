import type { Me } from '#server/contract/session.ts';
import { api, ApiError } from '../../lib/api.ts';
import { Waiting } from '../../ui/parts.tsx';
import { PasswordField } from '../../ui/password-field.tsx';
import { fieldError, Problem } from '../../ui/problem.tsx';
import { AccountNameField } from './account-name-field.tsx';
import { DoorForm, textOf } from './door-form.tsx';
import { Door, ToSignIn } from './door.tsx';
import { EmailField } from './email-field.tsx';
import { useEnter } from './enter.ts';
import { useAction } from './use-action.ts';
import { useWelcome } from './use-fetched.ts';

export function RegisterPage() {
  const { data, error, retry } = useWelcome();
  const foot = (
    <p>
      Registered already? <ToSignIn />
    </p>
  );
  if (error !== null) {
    return (
      <Door title="Register" foot={foot}>
        <Problem error={error} title="This page could not be loaded" onRetry={retry} />
      </Door>
    );
  }
  if (!data) {
    return (
      <Door title="Register" foot={foot}>
        <Waiting height="h-72" />
      </Door>
    );
  }
  if (data.needs_setup) {
    return (
      <Door
        title="Register"
        about="Nobody can register before this relay has an administrator. Open the setup link that the server printed when it started."
        foot={foot}
      />
    );
  }
  if (data.registration !== 'open') {
    const about =
      data.registration === 'invite'
        ? 'This relay takes people by invitation. Ask an administrator for a link; it leads to a page where you choose your password.'
        : 'Nobody can register here by themselves. Ask an administrator of this relay for an account.';
    return <Door title="Register" about={about} foot={foot} />;
  }
  return (
    <Door title="Register" about="You get an account with keys and a quota of its own." foot={foot}>
      <RegisterForm />
    </Door>
  );
}

function RegisterForm() {
  const enter = useEnter();
  const register = useAction(async (form: FormData) => {
    const [email, password] = [textOf(form, 'email'), textOf(form, 'password')];
    await api('POST', '/api/registration', { email, password, account_name: textOf(form, 'account_name') });
    // The reply is the same for an address that is taken: only who knows its password learns more.
    const me = await api<Me>('POST', '/api/session', { email, password }).catch((error: unknown) =>
      Promise.reject(explained(error)),
    );
    await enter(me);
  });
  return (
    <DoorForm does={register} action="Register" fields={['email', 'password', 'account_name']}>
      <EmailField error={register.error} />
      <PasswordField
        kind="new"
        label="Password"
        name="password"
        error={fieldError(register.error, 'password')}
      />
      <AccountNameField error={register.error} />
    </DoorForm>
  );
}

/** Why nobody could be signed in right after registering. */
function explained(error: unknown): unknown {
  if (!(error instanceof ApiError)) return error;
  const { status, code } = error;
  if (code === 'wrong_credentials')
    return new ApiError(
      'This address could not be registered with this password. If it is yours and registered already, sign in with the password you chose then.',
      { status, code },
    );
  if (code === 'totp_required')
    return new ApiError(
      'This address is registered already, and asks for a code from your device. Sign in instead.',
      { status, code },
    );
  return error;
}
