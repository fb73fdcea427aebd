import { Link, useSearch } from '@tanstack/react-router';
import { useState } from 'react';
import type { Me } from '#server/contract/session.ts';
import { api, ApiError } from '../../lib/api/api.ts';
import { Button } from '../../ui/button.tsx';
import { CodeField, codeError } from '../../ui/form/code-field.tsx';
import { PasswordField } from '../../ui/form/password-field.tsx';
import { fieldError } from '../../ui/problem.tsx';
import { AuthForm, textOf } from './auth-form.tsx';
import { AuthPage } from './auth-page.tsx';
import { EmailField } from './email-field.tsx';
import { useAfterSignIn } from './after-sign-in.ts';
import { useAction } from './use-action.ts';
import { ProviderButtons, ProviderError } from './provider-buttons.tsx';
import { useWelcome } from './use-fetched.ts';

const OR = [
  'my-4 flex items-center gap-3 text-xs text-muted',
  'before:h-px before:flex-1 before:bg-line after:h-px after:flex-1 after:bg-line',
].join(' ');

export function SignInPage() {
  const { next, error } = useSearch({ strict: false });
  const { data } = useWelcome();
  const [showsPassword, setShowsPassword] = useState(false);
  const providers = data?.providers ?? [];
  const isForAdministrators = data?.passwords === 'administrators';
  const hidesPassword = isForAdministrators && providers.length > 0 && !showsPassword;
  return (
    <AuthPage title="Sign in" foot={<Foot />}>
      <ProviderError code={error} />
      {providers.length > 0 && (
        <>
          <ProviderButtons providers={providers} next={next} />
          {hidesPassword ? (
            <Button look="quiet" className="mt-2 min-h-9 w-full" onClick={() => setShowsPassword(true)}>
              Administrator sign-in with a password
            </Button>
          ) : (
            <p className={OR}>or with a password</p>
          )}
        </>
      )}
      {!hidesPassword && <PasswordForm next={next} isFirst={providers.length === 0} />}
    </AuthPage>
  );
}

function PasswordForm({ next, isFirst }: { next: string | undefined; isFirst: boolean }) {
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
    <AuthForm
      does={{ ...signIn, error: codeError(error) === null ? error : null }}
      action="Sign in"
      fields={['email', 'password']}
    >
      <EmailField error={error} isFirst={isFirst} />
      <PasswordField kind="current" label="Password" name="password" error={fieldError(error, 'password')} />
      {wantsCode && (
        <CodeField label="Two-factor code" hint="6-digit code from your authenticator app" error={error} />
      )}
    </AuthForm>
  );
}

function Foot() {
  const { data } = useWelcome();
  if (!data) return null;
  if (data.needs_setup) return <p>Not set up yet. Open the setup link that the server printed at startup.</p>;
  return (
    <>
      <p>
        {data.registration === 'open' && data.passwords === 'everyone' && (
          <>
            New here?{' '}
            <Link to="/register" className="text-accent underline">
              Sign up
            </Link>
          </>
        )}
        {data.passwords === 'everyone' &&
          data.registration === 'invite' &&
          'New here? Ask an administrator for an invitation.'}
        {data.passwords === 'everyone' &&
          data.registration === 'closed' &&
          'New here? Ask an administrator for an account.'}
      </p>
      <p className="mt-1">
        <Link to="/forgot" className="text-accent underline">
          Forgot password?
        </Link>
      </p>
    </>
  );
}
