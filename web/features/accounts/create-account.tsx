import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { Change } from '#server/contract/keys.ts';
import { api } from '../../lib/api/api.ts';
import { accountsQuery } from '../../lib/api/names.ts';
import { plansQuery } from '../../lib/api/queries.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { TextField } from '../../ui/form/field.tsx';
import { fieldError, FormProblem } from '../../ui/problem.tsx';
import { useChange } from '../../ui/use-change.ts';
import { PlanField } from './plan-field.tsx';

/** Creates an account, then opens its details to add keys or members. */
export function CreateAccount({
  onClose,
  onCreated,
}: {
  onClose: () => void;
  onCreated: (account: string) => void;
}) {
  const { data: plans = [] } = useQuery(plansQuery);
  const [name, setName] = useState('');
  const [plan, setPlan] = useState<string | null>(null);
  const create = useChange(
    () =>
      api<Change & { id: string }>('POST', '/api/v1/accounts', {
        name: name.trim(),
        ...(plan === null ? {} : { plan }),
      }),
    {
      done: `Account ${name.trim()} created.`,
      invalidates: [accountsQuery.queryKey],
      onDone: ({ id }) => {
        onClose();
        onCreated(id);
      },
    },
  );
  return (
    <Dialog onClose={onClose} title="Create account">
      <form
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          create.mutate();
        }}
      >
        <TextField
          label="Name"
          required
          maxLength={100}
          autoComplete="off"
          placeholder="Data team"
          hint="Stored permanently in the audit log. Use a team or project name, not personal data."
          value={name}
          onChange={({ target }) => setName(target.value)}
          error={fieldError(create.error, 'name')}
        />
        <PlanField plans={plans} value={plan} onChange={setPlan} error={fieldError(create.error, 'plan')} />
        <FormProblem error={create.error} fields={['name', 'plan']} />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" busy={create.isPending}>
            Create account
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}
