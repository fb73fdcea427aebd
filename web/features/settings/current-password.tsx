import { ApiError } from '../../lib/api/api.ts';
import { PasswordField } from '../../ui/form/password-field.tsx';
import { fieldError } from '../../ui/problem.tsx';

/** The current password, with an error at the field if it is incorrect. */
export function CurrentPassword({ name, error }: { name: string; error: unknown }) {
  return (
    <PasswordField
      kind="current"
      label="Current password"
      name={name}
      error={isWrongPassword(error) ? 'Incorrect password.' : fieldError(error, name)}
    />
  );
}

export const isWrongPassword = (error: unknown): boolean =>
  error instanceof ApiError && error.code === 'invalid_credentials';
