import type { Change, CreatedKey, KeyRow } from '#server/contract/keys.ts';
import { api } from '../../lib/api/api.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { type NewSecret, useKeyChange, useSecretMutation } from './key-mutations.ts';
import { LastUsed, shownSecret } from './key-marks.tsx';

/** Revokes a key permanently. */
export function RevokeDialog({ row, onClose }: { row: KeyRow; onClose: () => void }) {
  const revoke = useKeyChange(
    () => api<Change>('POST', `/api/v1/keys/${row.id}/revoke`),
    'Key revoked.',
    onClose,
  );
  return (
    <Dialog onClose={onClose} title={`Revoke ${row.name}?`}>
      <div className="flex flex-col gap-3">
        <p>
          <code className="font-mono text-xs">{shownSecret(row.id, row.last4)}</code>, last used{' '}
          <LastUsed time={row.last_used_at} />, stops working immediately. This can’t be undone.
        </p>
        <ul className="flex list-disc flex-col gap-1 pl-5">
          <li>
            New requests are rejected with 401 <code className="font-mono text-xs">api_key_revoked</code>.
          </li>
          <li>Running requests end within a second. Usage up to that point is charged.</li>
          {row.state === 'rotating' && <li>Both secrets stop working, including the old one.</li>}
          <li>Its requests, usage and events are kept.</li>
        </ul>
        <p>To replace only the secret, rotate the key instead.</p>
        <FormProblem error={revoke.error} />
      </div>
      <DialogActions>
        <Button onClick={onClose}>Cancel</Button>
        <Button look="danger" busy={revoke.isPending} onClick={() => revoke.mutate()}>
          Revoke key
        </Button>
      </DialogActions>
    </Dialog>
  );
}

/** Replaces a leaked secret without an overlap. */
export function LeakedDialog({
  row,
  onClose,
  onCreated,
}: {
  row: KeyRow;
  onClose: () => void;
  onCreated: (made: NewSecret) => void;
}) {
  const replace = useSecretMutation(
    () => api<CreatedKey>('POST', `/api/v1/keys/${row.id}/leaked`),
    { why: 'leaked', name: row.name, models: row.terms?.models },
    onCreated,
  );
  return (
    <Dialog onClose={onClose} title={`Replace leaked secret of ${row.name}?`}>
      <div className="flex flex-col gap-3">
        <p>
          <code className="font-mono text-xs">{shownSecret(row.id, row.last4)}</code>, last used{' '}
          <LastUsed time={row.last_used_at} />. This takes effect immediately:
        </p>
        <ul className="flex list-disc flex-col gap-1 pl-5">
          <li>
            {row.state === 'rotating'
              ? 'Both current secrets stop working.'
              : 'The current secret stops working, without an overlap.'}
          </li>
          <li>The key gets a new secret, shown next. Its ID, restrictions and history are kept.</li>
          <li>Clients with the old secret are rejected with 401 until you update them.</li>
        </ul>
        <FormProblem error={replace.error} />
      </div>
      <DialogActions>
        <Button onClick={onClose}>Cancel</Button>
        <Button look="danger" icon="warning" busy={replace.isPending} onClick={() => replace.mutate()}>
          Replace secret
        </Button>
      </DialogActions>
    </Dialog>
  );
}
