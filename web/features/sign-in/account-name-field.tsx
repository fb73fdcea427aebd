import { TextField } from '../../ui/field.tsx';
import { fieldError } from '../../ui/problem.tsx';

/** Accounts own keys and quota; most people name theirs after a team or a project. */
export function AccountNameField({ error, isRequired = true }: { error: unknown; isRequired?: boolean }) {
  return (
    <TextField
      label={isRequired ? 'Name of your account' : 'Name of your account (optional)'}
      hint="It owns your keys and your quota. A team, a project, or your name."
      name="account_name"
      autoComplete="organization"
      maxLength={100}
      required={isRequired}
      error={fieldError(error, 'account_name')}
    />
  );
}
