import type { Me } from '#server/contract/session.ts';
import { api } from '../../lib/api/api.ts';
import { PasswordField } from '../../ui/form/password-field.tsx';
import { fieldError } from '../../ui/problem.tsx';
import { AccountNameField } from './account-name-field.tsx';
import { AuthForm, textOf } from './auth-form.tsx';
import { AuthPage, ToSignIn } from './auth-page.tsx';
import { EmailField } from './email-field.tsx';
import { useAfterSignIn } from './after-sign-in.ts';
import { useAction } from './use-action.ts';
import { useWelcome } from './use-fetched.ts';
import { useLinkToken } from './use-link-token.ts';

/** The page behind the setup link that the server prints at its first start. */
export function SetupPage() {
  const token = useLinkToken();
  const { data } = useWelcome();
  if (data?.needs_setup === false) {
    return (
      <AuthPage
        title="Already set up"
        about="This relay has an administrator. The setup link no longer works."
        foot={<ToSignIn />}
      />
    );
  }
  if (token === null) {
    return (
      <AuthPage
        title="Set up Daybook"
        about={
          <p>
            The link is incomplete. Open the full setup link, including the part after #. The server prints it
            at startup and writes it to <code className="font-mono text-xs">setup-link.txt</code> in the data
            directory. To create a new one, run <code className="font-mono text-xs">daybook setup-link</code>.
          </p>
        }
        foot={<ToSignIn />}
      />
    );
  }
  return <SetupForm token={token} />;
}

function SetupForm({ token }: { token: string }) {
  const enter = useAfterSignIn();
  const setUp = useAction(async (form: FormData) => {
    const name = textOf(form, 'account_name');
    const me = await api<Me>('POST', '/api/v1/setup', {
      secret: token,
      email: textOf(form, 'email'),
      password: textOf(form, 'password'),
      ...(name === '' ? {} : { account_name: name }),
    });
    await enter(me);
  });
  return (
    <AuthPage
      title="Set up Daybook"
      about="Create the first administrator. We don’t send any email to this address."
    >
      <AuthForm does={setUp} action="Set up" fields={['email', 'password', 'account_name']}>
        <EmailField error={setUp.error} />
        <PasswordField
          kind="new"
          label="Password"
          name="password"
          error={fieldError(setUp.error, 'password')}
        />
        <AccountNameField error={setUp.error} isRequired={false} />
      </AuthForm>
    </AuthPage>
  );
}
