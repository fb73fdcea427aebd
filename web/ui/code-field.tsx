import { ApiError } from '../lib/api.ts';
import { TextField } from './field.tsx';
import { fieldError } from './problem.tsx';

/** What is wrong with a code; null where it is something else. */
export const codeError = (error: unknown): string | null =>
  error instanceof ApiError && error.code === 'wrong_code' ? error.message : fieldError(error, 'code');

/** Asks for the code that a device shows now. A wrong one is said at the field. */
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
