import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { InvoiceChange, InvoiceRow } from '#server/contract/statements.ts';
import { api } from '../../lib/api/api.ts';
import { showCost, showCounted } from '../../lib/format/show.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { Choices } from '../../ui/form/choices.tsx';
import { TextField } from '../../ui/form/field.tsx';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { fieldError, FormProblem } from '../../ui/problem.tsx';
import { useChange } from '../../ui/use-change.ts';
import { correctionsQuery, invoicesQuery } from './queries.ts';

/** Issues the credit note of an invoice: over later corrections of its calls, or the whole invoice. */
export function CreditDialog({ invoice, onClose }: { invoice: InvoiceRow; onClose: () => void }) {
  const query = useQuery(correctionsQuery(invoice.number));
  return (
    <Dialog title={`Credit ${invoice.name}`} onClose={onClose}>
      <Loaded query={query} title="Couldn’t load corrections" height="h-40">
        {({ count }) => <CreditForm invoice={invoice} corrections={count} onClose={onClose} />}
      </Loaded>
    </Dialog>
  );
}

type CreditFormProps = { invoice: InvoiceRow; corrections: number; onClose: () => void };

function CreditForm({ invoice, corrections, onClose }: CreditFormProps) {
  const [over, setOver] = useState<'corrections' | 'invoice'>(corrections > 0 ? 'corrections' : 'invoice');
  const [reason, setReason] = useState('');
  const path = `/api/v1/invoices/${invoice.number}`;
  const credit = useChange(
    () =>
      over === 'corrections'
        ? api<InvoiceChange>('POST', `${path}/corrections`)
        : api<InvoiceChange>('POST', `${path}/credit`, { reason }),
    {
      done: ({ name }) => `Credit note ${name} issued.`,
      invalidates: [invoicesQuery.queryKey, correctionsQuery(invoice.number).queryKey, ['statements']],
      onDone: onClose,
    },
  );
  return (
    <form
      className="flex flex-col gap-4"
      onSubmit={(event) => {
        event.preventDefault();
        credit.mutate();
      }}
    >
      <Choices
        legend="Credit note over"
        value={over}
        onChange={setOver}
        choices={[
          {
            value: 'corrections',
            label: corrections === 0 ? 'Corrections: none' : showCounted(corrections, 'correction'),
            hint: 'Recorded after the period, for calls that the invoice bills, and not billed yet.',
          },
          {
            value: 'invoice',
            label: `The whole invoice, ${showCost(invoice.total_nanousd)}`,
            hint: 'With the credit notes over its corrections. The period can then be invoiced again.',
          },
        ]}
      />
      {over === 'invoice' && (
        <TextField
          label="Reason"
          value={reason}
          onChange={({ target }) => setReason(target.value)}
          required
          maxLength={200}
          autoComplete="off"
          hint="It is kept in the event log."
          error={fieldError(credit.error, 'reason')}
        />
      )}
      <p className="text-muted">
        The credit note gets the next number of the series. The invoice stays in the event log, unchanged.
      </p>
      <FormProblem error={credit.error} fields={['reason']} />
      <DialogActions>
        <Button onClick={onClose}>Cancel</Button>
        <Button
          type="submit"
          look={over === 'invoice' ? 'danger' : 'primary'}
          busy={credit.isPending}
          disabled={over === 'corrections' && corrections === 0}
        >
          Issue credit note
        </Button>
      </DialogActions>
    </form>
  );
}
