import { ApiError } from '../../lib/api.ts';
import { PasswordField } from '../../ui/password-field.tsx';
import { fieldError } from '../../ui/problem.tsx';

/** Asks for the password once more. A wrong one is said at the field. */
export function CurrentPassword({ name, error }: { name: string; error: unknown }) {
  return (
    <PasswordField
      kind="current"
      label="Current password"
      name={name}
      error={isWrongPassword(error) ? 'This is not your password.' : fieldError(error, name)}
    />
  );
}

export const isWrongPassword = (error: unknown): boolean =>
  error instanceof ApiError && error.code === 'wrong_credentials';
