import { Link, useSearch } from '@tanstack/react-router';
import { useState } from 'react';
import type { Me } from '#server/contract/session.ts';
import { api, ApiError } from '../../lib/api/api.ts';
import { CodeField, codeError } from '../../ui/form/code-field.tsx';
import { PasswordField } from '../../ui/form/password-field.tsx';
import { fieldError } from '../../ui/problem.tsx';
import { AuthForm, textOf } from './auth-form.tsx';
import { AuthPage } from './auth-page.tsx';
import { EmailField } from './email-field.tsx';
import { useAfterSignIn } from './after-sign-in.ts';
import { useAction } from './use-action.ts';
import { useWelcome } from './use-fetched.ts';

export function SignInPage() {
  const { next } = useSearch({ strict: false });
  const enter = useAfterSignIn();
  const [wantsCode, setWantsCode] = useState(false);
  const signIn = useAction(async (form: FormData) => {
    const code = textOf(form, 'code');
    try {
      await enter(
        await api<Me>('POST', '/api/v1/session', {
          email: textOf(form, 'email'),
          password: textOf(form, 'password'),
          ...(code === '' ? {} : { code }),
        }),
        next,
      );
    } catch (problem) {
      if (problem instanceof ApiError && problem.code === 'totp_required') setWantsCode(true);
      throw problem;
    }
  });
  // A request for the code is not shown as an error.
  const error =
    signIn.error instanceof ApiError && signIn.error.code === 'totp_required' ? null : signIn.error;

  return (
    <AuthPage title="Sign in" foot={<Foot />}>
      <AuthForm
        does={{ ...signIn, error: codeError(error) === null ? error : null }}
        action="Sign in"
        fields={['email', 'password']}
      >
        <EmailField error={error} isFirst />
        <PasswordField
          kind="current"
          label="Password"
          name="password"
          error={fieldError(error, 'password')}
        />
        {wantsCode && (
          <CodeField label="Two-factor code" hint="6-digit code from your authenticator app" error={error} />
        )}
      </AuthForm>
    </AuthPage>
  );
}

function Foot() {
  const { data } = useWelcome();
  if (!data) return null;
  if (data.needs_setup) return <p>Not set up yet. Open the setup link that the server printed at startup.</p>;
  return (
    <>
      <p>
        {data.registration === 'open' && (
          <>
            New here?{' '}
            <Link to="/register" className="text-accent underline">
              Sign up
            </Link>
          </>
        )}
        {data.registration === 'invite' && 'New here? Ask an administrator for an invitation.'}
        {data.registration === 'closed' && 'New here? Ask an administrator for an account.'}
      </p>
      <p className="mt-1">
        <Link to="/forgot" className="text-accent underline">
          Forgot password?
        </Link>
      </p>
    </>
  );
}
