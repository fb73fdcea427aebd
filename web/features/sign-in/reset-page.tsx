import type { Me } from '#server/contract/session.ts';
import { api, ApiError } from '../../lib/api.ts';
import { PasswordField } from '../../ui/password-field.tsx';
import { fieldError } from '../../ui/problem.tsx';
import { DoorForm, textOf } from './door-form.tsx';
import { Door, ToSignIn } from './door.tsx';
import { useEnter } from './enter.ts';
import { useAction } from './use-action.ts';
import { useLinkToken } from './use-link-token.ts';

/** Where a reset link leads. */
export function ResetPage() {
  const token = useLinkToken();
  const enter = useEnter();
  const reset = useAction(async (form: FormData) =>
    enter(
      await api<Me>('POST', '/api/password/reset', { secret: token, password: textOf(form, 'password') }),
    ),
  );
  if (token === null) {
    return (
      <Door
        title="Choose a new password"
        about="Open the whole link that you were given: what follows its # is missing here."
        foot={<ToSignIn />}
      />
    );
  }
  // The password is set all the same; a link alone is not enough for an account with a device.
  if (reset.error instanceof ApiError && reset.error.code === 'totp_required') {
    return (
      <Door title="Your password is changed" foot={<ToSignIn />}>
        <p role="status">{reset.error.message}</p>
      </Door>
    );
  }
  return (
    <Door
      title="Choose a new password"
      about="You are signed in with it here, and signed out everywhere else."
      foot={<ToSignIn />}
    >
      <DoorForm does={reset} action="Change the password" fields={['password']}>
        <PasswordField
          kind="new"
          label="New password"
          name="password"
          error={fieldError(reset.error, 'password')}
        />
      </DoorForm>
    </Door>
  );
}
