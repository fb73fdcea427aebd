import { TextField } from '../../ui/form/field.tsx';
import { fieldError } from '../../ui/problem.tsx';

export function EmailField({
  error,
  isFirst = false,
}: {
  error: unknown;
  /** Whether to focus the field. */ isFirst?: boolean;
}) {
  return (
    <TextField
      autoFocus={isFirst}
      label="Email"
      name="email"
      type="email"
      autoComplete="username"
      autoCapitalize="none"
      spellCheck={false}
      maxLength={254}
      required
      error={fieldError(error, 'email')}
    />
  );
}
