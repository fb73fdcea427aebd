import { TextField } from '../../ui/form/field.tsx';
import { fieldError } from '../../ui/problem.tsx';

/** The name of a new account, which owns keys and quotas. */
export function AccountNameField({ error, isRequired = true }: { error: unknown; isRequired?: boolean }) {
  return (
    <TextField
      label={isRequired ? 'Account name' : 'Account name (optional)'}
      hint="Your team or project. The account owns your keys and quotas."
      name="account_name"
      autoComplete="organization"
      maxLength={100}
      required={isRequired}
      error={fieldError(error, 'account_name')}
    />
  );
}
