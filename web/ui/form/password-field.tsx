import { type ComponentProps, useState } from 'react';
import type { PASSWORD_CHARACTERS_MAX, PASSWORD_CHARACTERS_MIN } from '#server/contract/session.ts';
import { TextField } from './field.tsx';

const CHARACTERS_MIN: typeof PASSWORD_CHARACTERS_MIN = 10;
const CHARACTERS_MAX: typeof PASSWORD_CHARACTERS_MAX = 200;

type PasswordFieldProps = Omit<
  ComponentProps<typeof TextField>,
  'type' | 'autoComplete' | 'minLength' | 'maxLength' | 'required' | 'hint'
> & {
  /** A new password has a minimum length. */
  kind: 'current' | 'new';
};

/** A password field with a visibility toggle, for password managers and pasting. */
export function PasswordField({ kind, ...rest }: PasswordFieldProps) {
  const [isShown, show] = useState(false);
  const isNew = kind === 'new';
  return (
    <div className="relative">
      <TextField
        {...rest}
        {...(isNew ? { minLength: CHARACTERS_MIN, hint: `At least ${CHARACTERS_MIN} characters` } : {})}
        type={isShown ? 'text' : 'password'}
        autoComplete={isNew ? 'new-password' : 'current-password'}
        autoCapitalize="none"
        spellCheck={false}
        maxLength={CHARACTERS_MAX}
        required
        className="pr-16"
      />
      <button
        type="button"
        aria-pressed={isShown}
        aria-label="Show password"
        onClick={() => show(!isShown)}
        className="absolute top-6 right-0 h-8.5 rounded-md px-3 text-xs text-muted hover:text-ink"
      >
        {isShown ? 'Hide' : 'Show'}
      </button>
    </div>
  );
}
