import { useState } from 'react';
import type { ReconciledDifference } from '#server/contract/reconciliations.ts';
import { showCounted } from '../../lib/format/show.ts';
import { Button } from '../../ui/button.tsx';
import { announce } from '../../ui/dialog/toast.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { TextField } from '../../ui/form/field.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { TaskProgress } from './task-progress.tsx';
import { useTask } from './use-task.ts';
import { showSigned } from './words.ts';

const REASON_MAX = 200;

/** Records reviewed differences as adjustments, after a confirmation. */
export function ApplyDialog({
  reconciliation,
  provider,
  chosen,
  onClose,
  onDone,
}: {
  reconciliation: string;
  provider: string;
  chosen: readonly ReconciledDifference[];
  onClose: () => void;
  onDone: () => void;
}) {
  const [reason, setReason] = useState(`Bill of ${provider || 'the provider'}`.slice(0, REASON_MAX));
  const task = useTask(
    `/api/v1/reconciliations/${encodeURIComponent(reconciliation)}/apply`,
    ({ corrected, repeated }) => {
      announce({
        text:
          `${showCounted(corrected, 'request')} corrected` +
          `${repeated > 0 ? `, ${repeated} were corrected before` : ''}.`,
      });
      onDone();
      onClose();
    },
  );
  const requests = chosen.reduce((sum, { correctable, corrected }) => sum + correctable - corrected, 0);
  const amount = chosen.reduce((sum, { amount_nanousd }) => sum + BigInt(amount_nanousd), 0n);
  return (
    <Dialog onClose={onClose} title="Record as adjustments?">
      <form
        className="flex flex-col gap-3"
        onSubmit={(event) => {
          event.preventDefault();
          task.run({ differences: chosen.map(({ id }) => id), reason });
        }}
      >
        <p>
          Corrects the recorded upstream cost and tokens of {showCounted(requests, 'request')} to those of the
          bill: {showSigned(amount)} in {showCounted(chosen.length, 'difference')}. Each correction is an
          event with the difference’s reference. Charges of accounts stay.
        </p>
        <p className="text-muted">Events can’t be removed. A repeated run corrects no request twice.</p>
        <TextField
          label="Reason"
          hint="For the audit log."
          value={reason}
          maxLength={REASON_MAX}
          required
          disabled={task.isRunning}
          onChange={({ target }) => setReason(target.value)}
          autoComplete="off"
        />
        <FormProblem error={task.error} />
        {task.isRunning && (
          <TaskProgress
            label="Correcting"
            unit="request"
            done={task.done}
            of={task.of}
            onCancel={task.cancel}
          />
        )}
        <DialogActions>
          <Button onClick={onClose}>Close</Button>
          <Button look="primary" type="submit" busy={task.isRunning} disabled={reason.trim() === ''}>
            Record {showCounted(requests, 'adjustment')}
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}
