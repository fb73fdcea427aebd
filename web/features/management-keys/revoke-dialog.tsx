import type { Change, ManagementKeyRow } from '#server/contract/keys.ts';
import { api } from '../../lib/api/api.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { useChange } from '../../ui/use-change.ts';
import { managementKeysQuery } from './queries.ts';

/** Revokes a management key permanently. */
export function RevokeDialog({
  managementKey: { id, name },
  onClose,
}: {
  managementKey: ManagementKeyRow;
  onClose: () => void;
}) {
  const revoke = useChange(() => api<Change>('POST', `/api/v1/management-keys/${id}/revoke`), {
    done: 'Management key revoked.',
    invalidates: [managementKeysQuery.queryKey],
    onDone: onClose,
  });
  return (
    <Dialog onClose={onClose} title={`Revoke ${name}?`}>
      <p>
        Programs that use it get 401 <code className="font-mono text-xs">management_key_revoked</code> from
        now on. Its changes stay in the audit log. This can’t be undone.
      </p>
      <FormProblem error={revoke.error} />
      <DialogActions>
        <Button onClick={onClose}>Cancel</Button>
        <Button look="danger" busy={revoke.isPending} onClick={() => revoke.mutate()}>
          Revoke key
        </Button>
      </DialogActions>
    </Dialog>
  );
}
