import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { InvoiceChange } from '#server/contract/statements.ts';
import { api } from '../../lib/api/api.ts';
import { accountsQuery } from '../../lib/api/names.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { SelectField, TextField } from '../../ui/form/field.tsx';
import { fieldError, FormProblem } from '../../ui/problem.tsx';
import { useChange } from '../../ui/use-change.ts';
import { monthName, newestMonths } from './period.ts';
import { invoicesQuery } from './queries.ts';

type IssueInvoiceProps = {
  /** The account that is chosen at first. */
  account: string;
  nowMs: number;
  onClose: () => void;
};

/** Issues the invoice of an account, or of one of its end users, for a month that is over. */
export function IssueInvoiceDialog({ account: first, nowMs, onClose }: IssueInvoiceProps) {
  const accounts = useQuery(accountsQuery).data ?? [];
  const months = newestMonths(nowMs).slice(1);
  const [account, setAccount] = useState(first);
  const [period, setPeriod] = useState(months[0] as string);
  const [endUser, setEndUser] = useState('');
  const issue = useChange(
    () =>
      api<InvoiceChange>('POST', '/api/v1/invoices', {
        account,
        period,
        ...(endUser === '' ? {} : { end_user: endUser }),
      }),
    {
      done: ({ name }) => `Invoice ${name} issued.`,
      invalidates: [invoicesQuery.queryKey],
      onDone: onClose,
    },
  );
  return (
    <Dialog title="Issue invoice" onClose={onClose}>
      <form
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          issue.mutate();
        }}
      >
        <SelectField label="Account" value={account} onChange={({ target }) => setAccount(target.value)}>
          {accounts.map(({ id, name }) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
        </SelectField>
        <SelectField label="Month (UTC)" value={period} onChange={({ target }) => setPeriod(target.value)}>
          {months.map((month) => (
            <option key={month} value={month}>
              {monthName(month)}
            </option>
          ))}
        </SelectField>
        <TextField
          label="End user"
          placeholder="All"
          value={endUser}
          onChange={({ target }) => setEndUser(target.value)}
          maxLength={16}
          pattern="[0-9A-Za-z]{16}"
          autoComplete="off"
          hint="A pseudonym of 16 letters and digits; empty: the whole account."
          error={fieldError(issue.error, 'end_user')}
        />
        <p className="text-muted">
          The invoice gets the next number. A month that was invoiced before keeps its invoice.
        </p>
        <FormProblem error={issue.error} fields={['end_user']} />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" busy={issue.isPending}>
            Issue invoice
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}
