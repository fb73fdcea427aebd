import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { Change } from '#server/contract/keys.ts';
import { api } from '../../lib/api.ts';
import { accountsQuery } from '../../lib/names.ts';
import { plansQuery } from '../../lib/plans.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { TextField } from '../../ui/field.tsx';
import { fieldError, FormProblem } from '../../ui/problem.tsx';
import { useChange } from '../../ui/use-change.ts';
import { PlanField } from './plan-field.tsx';

/** Creates an account, and shows it: what it needs next is a key or a member. */
export function CreateAccount({
  onClose,
  onMade,
}: {
  onClose: () => void;
  onMade: (account: string) => void;
}) {
  const { data: plans = [] } = useQuery(plansQuery);
  const [name, setName] = useState('');
  const [plan, setPlan] = useState<string | null>(null);
  const create = useChange(
    () =>
      api<Change & { id: string }>('POST', '/api/accounts', {
        name: name.trim(),
        ...(plan === null ? {} : { plan }),
      }),
    {
      done: `Account ${name.trim()} created.`,
      altered: [accountsQuery.queryKey],
      onDone: ({ id }) => {
        onClose();
        onMade(id);
      },
    },
  );
  return (
    <Dialog onClose={onClose} title="Create an account">
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
          hint="It stands in the log for good, so no personal data: a team or a project rather than a person."
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
