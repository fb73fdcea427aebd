import { TextField } from '../../ui/field.tsx';
import { fieldError } from '../../ui/problem.tsx';

export function EmailField({ error, label = 'E-mail address' }: { error: unknown; label?: string }) {
  return <TextField label={label} name="email" type="email" autoComplete="username" autoCapitalize="none" spellCheck={false} maxLength={254} required error={fieldError(error, 'email')} />;
}
