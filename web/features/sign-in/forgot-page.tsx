import { api } from '../../lib/api.ts';
import { Waiting } from '../../ui/parts.tsx';
import { DoorForm, textOf } from './door-form.tsx';
import { Door, ToSignIn } from './door.tsx';
import { EmailField } from './email-field.tsx';
import { useAction } from './use-action.ts';
import { useWelcome } from './use-fetched.ts';

export function ForgotPage() {
  const { data, error } = useWelcome();
  const ask = useAction((form: FormData) =>
    api<{ object: string }>('POST', '/api/password/forgotten', { email: textOf(form, 'email') }),
  );
  const foot = <ToSignIn>Back to signing in</ToSignIn>;
  if (ask.result !== undefined) {
    return (
      <Door title="Look into your mail" foot={foot}>
        <p role="status">
          If somebody here has this address, a link is on its way to it. It is good once, for an hour.
        </p>
      </Door>
    );
  }
  if (!data && error === null) {
    return (
      <Door title="Password forgotten" foot={foot}>
        <Waiting height="h-32" />
      </Door>
    );
  }
  if (data?.can_send_mail === false) {
    return (
      <Door
        title="Password forgotten"
        about="This relay sends no mail. Ask an administrator: under Members they make a link by which you choose a new password."
        foot={foot}
      />
    );
  }
  return (
    <Door title="Password forgotten" about="You get a link by which you choose a new one." foot={foot}>
      <DoorForm does={ask} action="Send the link" fields={['email']}>
        <EmailField error={ask.error} />
      </DoorForm>
    </Door>
  );
}
