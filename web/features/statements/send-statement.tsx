import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { SentStatement, StatementEmails } from '#server/contract/statements.ts';
import { api } from '../../lib/api/api.ts';
import { showCounted } from '../../lib/format/show.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { announce } from '../../ui/dialog/toast.tsx';
import { SelectField } from '../../ui/form/field.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { monthName, newestMonths } from './period.ts';
import { emailsQuery, invoicesQuery } from './queries.ts';

type SendStatementProps = { account: string; emails: StatementEmails; nowMs: number; onClose: () => void };

/** Sends a statement, an invoice or a credit note to the recipients of an account, also once more. */
export function SendStatementDialog({ account, emails, nowMs, onClose }: SendStatementProps) {
  const queries = useQueryClient();
  const invoices = useQuery(invoicesQuery).data?.data ?? [];
  const months = newestMonths(nowMs).slice(1);
  const [document, setDocument] = useState(months[0] as string);
  const send = useMutation({
    mutationFn: () =>
      api<SentStatement>(
        'POST',
        '/api/v1/statement-emails',
        document.includes('-') ? { account, period: document } : { invoice: Number(document) },
      ),
    onSuccess: async ({ count }) => {
      announce({ text: `${showCounted(count, 'email')} queued.` });
      onClose();
      await queries.invalidateQueries({ queryKey: emailsQuery(account).queryKey });
    },
  });
  return (
    <Dialog title="Send statement" onClose={onClose}>
      <form
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          send.mutate();
        }}
      >
        <SelectField
          label="Document"
          value={document}
          onChange={({ target }) => setDocument(target.value)}
          hint="Of a month: its invoice, otherwise its statement."
        >
          {months.map((month) => (
            <option key={month} value={month}>
              {monthName(month)}
            </option>
          ))}
          {invoices
            .filter((row) => row.account === account && row.kind !== 'credit_note')
            .map(({ number, name }) => (
              <option key={number} value={String(number)}>
                {name}
              </option>
            ))}
        </SelectField>
        <p className="wrap-anywhere text-muted">To {emails.recipients.join(', ')}, as PDF with the proof.</p>
        <FormProblem error={send.error} />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" busy={send.isPending}>
            Send
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}
