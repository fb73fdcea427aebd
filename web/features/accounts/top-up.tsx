import { useState } from 'react';
import { useQueryClient } from '@tanstack/react-query';
import type { Change } from '#server/contract/keys.ts';
import { api } from '../../lib/api/api.ts';
import { limitsQuery } from '../../lib/api/limits.ts';
import { showCost } from '../../lib/format/show.ts';
import { Button } from '../../ui/button.tsx';
import { DialogActions } from '../../ui/dialog/dialog.tsx';
import { TextField } from '../../ui/form/field.tsx';
import { fieldError, FormProblem } from '../../ui/problem.tsx';
import { AmountField } from '../../ui/terms/amount-field.tsx';
import { topUpsQuery } from './account-queries.ts';
import { type StepProps, useAccountChange } from './use-account-change.ts';

/** Adds money to the prepaid balance of an account. */
export function TopUpAccount({ account, onBack, onDone }: StepProps) {
  const { id, prepaid, topped_up_nanousd: toppedUp } = account;
  const queries = useQueryClient();
  const [amount, setAmount] = useState<number | undefined>(undefined);
  const [reference, setReference] = useState('');
  const post = useAccountChange(
    () => api<Change>('POST', `/api/v1/accounts/${id}/top-ups`, { amount_nanousd: amount, reference }),
    'Balance topped up.',
    (done) => {
      onDone(done);
      void queries.invalidateQueries({ queryKey: topUpsQuery(id).queryKey });
      void queries.invalidateQueries({ queryKey: limitsQuery(id).queryKey });
    },
  );
  return (
    <form
      className="flex flex-col gap-5"
      onSubmit={(event) => {
        event.preventDefault();
        post.mutate();
      }}
    >
      {!prepaid && (
        <p className="rounded-lg bg-sunken px-3 py-2">
          The account isn’t prepaid: the balance limits its requests only once its plan or override says so.
        </p>
      )}
      <AmountField
        label="Amount (US dollars)"
        unit="nanousd"
        value={amount}
        onChange={setAmount}
        required
        placeholder="25.00"
        error={fieldError(post.error, 'amount_nanousd')}
      />
      <TextField
        label="Reference"
        value={reference}
        onChange={({ target }) => setReference(target.value)}
        required
        maxLength={200}
        autoComplete="off"
        hint="The payment or invoice. Each reference can be used once; it is kept in the event log."
        error={fieldError(post.error, 'reference')}
      />
      <p className="text-muted">
        Top-ups so far: {showCost(toppedUp)}
        {amount !== undefined && amount > 0 && `, then ${showCost(toppedUp + amount)}`}.
      </p>
      <FormProblem error={post.error} fields={['amount_nanousd', 'reference']} />
      <DialogActions>
        <Button onClick={onBack}>Back</Button>
        <Button type="submit" look="primary" busy={post.isPending}>
          Top up
        </Button>
      </DialogActions>
    </form>
  );
}
