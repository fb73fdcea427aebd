import { useMutation, useQueryClient } from '@tanstack/react-query';
import type { WebhookRow } from '#server/contract/alerts.ts';
import { api } from '../../lib/api/api.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { announce } from '../../ui/dialog/toast.tsx';
import { webhooksQuery } from './alert-queries.ts';

export function RemoveWebhook({
  webhook: { id, origin },
  onClose,
}: {
  webhook: WebhookRow;
  onClose: () => void;
}) {
  const queries = useQueryClient();
  const remove = useMutation({
    mutationFn: () => api('DELETE', `/api/webhooks/${id}`),
    onSuccess: async () => {
      announce({ text: 'Webhook removed.' });
      onClose();
      await queries.invalidateQueries({ queryKey: webhooksQuery.queryKey });
    },
  });
  return (
    <Dialog onClose={onClose} title="Remove webhook?">
      <p>
        Alerts are no longer delivered to <strong className="font-semibold break-all">{origin}</strong> .
        Pending deliveries, the delivery history, the URL and the secret are deleted. Alerts are kept.
      </p>
      <FormProblem error={remove.error} />
      <DialogActions>
        <Button onClick={onClose}>Cancel</Button>
        <Button look="danger" busy={remove.isPending} onClick={() => remove.mutate()}>
          Remove webhook
        </Button>
      </DialogActions>
    </Dialog>
  );
}
