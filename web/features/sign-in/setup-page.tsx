import type { Me } from '#server/contract/session.ts';
import { api } from '../../lib/api.ts';
import { PasswordField } from '../../ui/password-field.tsx';
import { fieldError } from '../../ui/problem.tsx';
import { AccountNameField } from './account-name-field.tsx';
import { DoorForm, textOf } from './door-form.tsx';
import { Door, ToSignIn } from './door.tsx';
import { EmailField } from './email-field.tsx';
import { useEnter } from './enter.ts';
import { useAction } from './use-action.ts';
import { useWelcome } from './use-fetched.ts';
import { useLinkToken } from './use-link-token.ts';

/** Where the link leads that the server printed at its first start. */
export function SetupPage() {
  const token = useLinkToken();
  const { data } = useWelcome();
  if (data?.needs_setup === false) {
    return (
      <Door
        title="This relay is set up"
        about="It has an administrator already, so the setup link is good for nothing any more."
        foot={<ToSignIn />}
      />
    );
  }
  if (token === null) {
    return (
      <Door
        title="Set up this relay"
        about="Open the whole setup link that the server printed when it started: what follows its # is missing here. It stands in setup-link.txt of the data directory as well. Each start makes a new one, and so does the command daybook setup-link."
        foot={<ToSignIn />}
      />
    );
  }
  return <SetupForm token={token} />;
}

function SetupForm({ token }: { token: string }) {
  const enter = useEnter();
  const setUp = useAction(async (form: FormData) => {
    const name = textOf(form, 'account_name');
    const me = await api<Me>('POST', '/api/setup', {
      secret: token,
      email: textOf(form, 'email'),
      password: textOf(form, 'password'),
      ...(name === '' ? {} : { account_name: name }),
    });
    await enter(me);
  });
  return (
    <Door
      title="Set up this relay"
      about="You become its first administrator. Nothing is sent to your address; you sign in with it."
    >
      <DoorForm does={setUp} action="Set up" fields={['email', 'password', 'account_name']}>
        <EmailField error={setUp.error} />
        <PasswordField
          kind="new"
          label="Password"
          name="password"
          error={fieldError(setUp.error, 'password')}
        />
        <AccountNameField error={setUp.error} isRequired={false} />
      </DoorForm>
    </Door>
  );
}
