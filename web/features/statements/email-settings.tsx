import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { StatementEmails } from '#server/contract/statements.ts';
import { api } from '../../lib/api/api.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { announce } from '../../ui/dialog/toast.tsx';
import { Checkbox, TextArea, TextField } from '../../ui/form/field.tsx';
import { fieldError, FormProblem } from '../../ui/problem.tsx';

type EmailSettingsProps = { account: string; emails: StatementEmails; onClose: () => void };

/** The monthly schedule, which is of all accounts, and the recipients of one. */
export function EmailSettingsDialog({ account, emails, onClose }: EmailSettingsProps) {
  const queries = useQueryClient();
  const [recipients, setRecipients] = useState(emails.recipients.join('\n'));
  const [enabled, setEnabled] = useState(emails.schedule.enabled);
  const [day, setDay] = useState(String(emails.schedule.day));
  const save = useMutation({
    mutationFn: async () => {
      await api('PUT', '/api/v1/statement-emails/recipients', {
        account,
        recipients: recipients.split(/[\n,]/).filter((line) => line.trim() !== ''),
      });
      await api('PUT', '/api/v1/statement-emails/schedule', { enabled, day: Number(day) });
    },
    onSuccess: () => {
      announce({ text: 'Email settings saved.' });
      onClose();
    },
    // The first change may have succeeded alone.
    onSettled: () => queries.invalidateQueries({ queryKey: ['statement-emails'] }),
  });
  return (
    <Dialog title="Edit email settings" onClose={onClose}>
      <form
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate();
        }}
      >
        <TextArea
          label="Recipients of this account"
          rows={3}
          value={recipients}
          onChange={({ target }) => setRecipients(target.value)}
          placeholder="billing@example.com"
          spellCheck={false}
          hint="One address a line. Removing one erases it with its emails below."
          error={fieldError(save.error, 'recipients')}
        />
        <Checkbox
          label="Send statements monthly"
          hint={
            'For all accounts with recipients, starting with the current month. An issued invoice ' +
            'replaces the statement of its month.'
          }
          checked={enabled}
          onChange={({ target }) => setEnabled(target.checked)}
        />
        <TextField
          label="Day of the next month (UTC)"
          type="number"
          min={1}
          max={28}
          required
          value={day}
          onChange={({ target }) => setDay(target.value)}
          hint="Leave time to issue invoices before it."
        />
        <FormProblem error={save.error} fields={['recipients']} />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" busy={save.isPending}>
            Save email settings
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}
