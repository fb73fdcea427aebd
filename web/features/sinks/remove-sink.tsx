import type { Change } from '#server/contract/keys.ts';
import type { SinkRow } from '#server/contract/sinks.ts';
import { api } from '../../lib/api/api.ts';
import { showCounted } from '../../lib/format/show.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { useChange } from '../../ui/use-change.ts';
import { sinksQuery } from './sink-queries.ts';

/** Removes a sink and its position permanently. */
export function RemoveSink({ sink: { name, behind }, onClose }: { sink: SinkRow; onClose: () => void }) {
  const remove = useChange(() => api<Change>('DELETE', `/api/v1/sinks/${name}`), {
    done: `Sink ${name} removed.`,
    invalidates: [sinksQuery.queryKey],
    onDone: onClose,
  });
  return (
    <Dialog onClose={onClose} title={`Remove sink ${name}?`}>
      <p>
        Nothing more is delivered. Its position, address and secrets are deleted.
        {behind > 0 && ` The receiver lacks the last ${showCounted(behind, 'event')} of the log.`}
      </p>
      <FormProblem error={remove.error} />
      <DialogActions>
        <Button onClick={onClose}>Cancel</Button>
        <Button look="danger" busy={remove.isPending} onClick={() => remove.mutate()}>
          Remove sink
        </Button>
      </DialogActions>
    </Dialog>
  );
}
