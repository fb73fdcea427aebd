import { useMutation, useQueryClient } from '@tanstack/react-query';
import type { DestinationRow } from '#server/contract/alerts.ts';
import { api } from '../../lib/api/api.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { announce } from '../../ui/dialog/toast.tsx';
import { destinationsQuery } from './alert-queries.ts';

export function RemoveDestination({
  destination: { id, label },
  onClose,
}: {
  destination: DestinationRow;
  onClose: () => void;
}) {
  const queries = useQueryClient();
  const remove = useMutation({
    mutationFn: () => api('DELETE', `/api/v1/destinations/${id}`),
    onSuccess: async () => {
      announce({ text: 'Destination removed.' });
      onClose();
      await queries.invalidateQueries({ queryKey: destinationsQuery.queryKey });
    },
  });
  return (
    <Dialog onClose={onClose} title="Remove destination?">
      <p>
        Alerts are no longer delivered to <strong className="font-semibold break-all">{label}</strong> .
        Pending deliveries, the delivery history, the address and the secret are deleted. Alerts are kept.
      </p>
      <FormProblem error={remove.error} />
      <DialogActions>
        <Button onClick={onClose}>Cancel</Button>
        <Button look="danger" busy={remove.isPending} onClick={() => remove.mutate()}>
          Remove destination
        </Button>
      </DialogActions>
    </Dialog>
  );
}
