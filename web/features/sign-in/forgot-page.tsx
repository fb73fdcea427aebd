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
  const foot = <ToSignIn>Back to sign in</ToSignIn>;
  if (ask.result !== undefined) {
    return (
      <Door title="Check your email" foot={foot}>
        <p role="status">
          If a member has this address, we sent a reset link. It works once and expires after one hour.
        </p>
      </Door>
    );
  }
  if (!data && error === null) {
    return (
      <Door title="Reset password" foot={foot}>
        <Waiting height="h-32" />
      </Door>
    );
  }
  if (data?.can_send_mail === false) {
    return (
      <Door
        title="Reset password"
        about="This relay doesn’t send email. Ask an administrator for a reset link."
        foot={foot}
      />
    );
  }
  return (
    <Door title="Reset password" about="We email you a link to set a new password." foot={foot}>
      <DoorForm does={ask} action="Send reset link" fields={['email']}>
        <EmailField error={ask.error} />
      </DoorForm>
    </Door>
  );
}
