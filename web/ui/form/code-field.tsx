import { ApiError } from '../../lib/api/api.ts';
import { TextField } from './field.tsx';
import { fieldError } from '../problem.tsx';

/** The error of a code field, or null for other errors. */
export const codeError = (error: unknown): string | null =>
  error instanceof ApiError && error.code === 'invalid_totp_code' ? error.message : fieldError(error, 'code');

/** A one-time code, with its error at the field. */
export function CodeField({ label, hint, error }: { label: string; hint?: string; error: unknown }) {
  return (
    <TextField
      label={label}
      hint={hint}
      name="code"
      inputMode="numeric"
      autoComplete="one-time-code"
      pattern="[0-9]{6}"
      maxLength={6}
      required
      autoFocus
      error={codeError(error)}
    />
  );
}
