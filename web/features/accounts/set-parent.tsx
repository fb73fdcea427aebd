import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { Change } from '#server/contract/keys.ts';
import { api } from '../../lib/api/api.ts';
import { accountsQuery } from '../../lib/api/names.ts';
import { Button } from '../../ui/button.tsx';
import { DialogActions } from '../../ui/dialog/dialog.tsx';
import { SelectField } from '../../ui/form/field.tsx';
import { fieldError, FormProblem } from '../../ui/problem.tsx';
import { type StepProps, useAccountChange } from './use-account-change.ts';

/** Puts an account below another one, or below none. */
export function SetParent({ account: { id, name, parent: now }, onBack, onDone }: StepProps) {
  const { data: accounts = [] } = useQuery(accountsQuery);
  const [parent, setParent] = useState(now?.id ?? null);
  const put = useAccountChange(
    () => api<Change>('PUT', `/api/v1/accounts/${id}/parent`, { parent }),
    parent === null ? 'Parent account removed.' : 'Parent account changed.',
    onDone,
  );
  // The list is bounded: the present parent may be missing from it.
  const choices = [...(now === null ? [] : [now]), ...accounts.filter((each) => each.id !== now?.id)];
  return (
    <form
      className="flex flex-col gap-5"
      onSubmit={(event) => {
        event.preventDefault();
        put.mutate();
      }}
    >
      <SelectField
        label="Parent account"
        value={parent ?? ''}
        onChange={({ target }) => setParent(target.value === '' ? null : target.value)}
        hint={`Requests of ${name} are also charged to the limits of the parent account and of its parent.`}
        error={fieldError(put.error, 'parent')}
      >
        <option value="">No parent account</option>
        {choices
          .filter((each) => each.id !== id)
          .map((each) => (
            <option key={each.id} value={each.id}>
              {each.name}
            </option>
          ))}
      </SelectField>
      <p className="text-muted">Accounts can have at most three levels.</p>
      <FormProblem error={put.error} fields={['parent']} />
      <DialogActions>
        <Button onClick={onBack}>Back</Button>
        <Button type="submit" look="primary" disabled={parent === (now?.id ?? null)} busy={put.isPending}>
          {parent === null ? 'Remove parent account' : 'Set parent account'}
        </Button>
      </DialogActions>
    </form>
  );
}
