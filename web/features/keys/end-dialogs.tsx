import type { Change, CreatedKey, KeyRow } from '#server/contract/keys.ts';
import { api } from '../../lib/api.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { type Made, useKeyChange, useSecretMaking } from './change-key.ts';
import { LastUsed, shownSecret } from './key-marks.tsx';

/** Ends a key for good. */
export function RevokeDialog({ row, onClose }: { row: KeyRow; onClose: () => void }) {
  const revoke = useKeyChange(
    () => api<Change>('POST', `/api/keys/${row.id}/revoke`),
    'The key is revoked.',
    onClose,
  );
  return (
    <Dialog onClose={onClose} title={`Revoke ${row.name}`}>
      <div className="flex flex-col gap-3">
        <p>
          <code className="font-mono text-xs">{shownSecret(row.id, row.last4)}</code>, last used{' '}
          <LastUsed time={row.last_used_at} />, ends at once and for good:
        </p>
        <ul className="flex list-disc flex-col gap-1 pl-5">
          <li>
            New calls with it are refused: 401 <code className="font-mono text-xs">revoked_api_key</code>.
          </li>
          <li>Calls that run now end within a second. What they used until then is charged.</li>
          {row.state === 'rotating' && <li>Both of its secrets end, the old one as well.</li>}
          <li>Its requests, usage and events stay.</li>
        </ul>
        <p>To change only the secret, rotate the key.</p>
        <FormProblem error={revoke.error} />
      </div>
      <DialogActions>
        <Button onClick={onClose}>Cancel</Button>
        <Button look="danger" busy={revoke.isPending} onClick={() => revoke.mutate()}>
          Revoke now
        </Button>
      </DialogActions>
    </Dialog>
  );
}

/** For a secret that others may have seen: one button that ends it, and says what it does. */
export function LeakedDialog({
  row,
  onClose,
  onMade,
}: {
  row: KeyRow;
  onClose: () => void;
  onMade: (made: Made) => void;
}) {
  const replace = useSecretMaking(
    () => api<CreatedKey>('POST', `/api/keys/${row.id}/leaked`),
    { why: 'leaked', name: row.name, models: row.terms?.models },
    onMade,
  );
  return (
    <Dialog onClose={onClose} title={`The secret of ${row.name} has leaked`}>
      <div className="flex flex-col gap-3">
        <p>
          <code className="font-mono text-xs">{shownSecret(row.id, row.last4)}</code>, last used{' '}
          <LastUsed time={row.last_used_at} />. One press does what has to be done at once:
        </p>
        <ul className="flex list-disc flex-col gap-1 pl-5">
          <li>
            The secret ends now
            {row.state === 'rotating'
              ? ', and so does the older one: its overlap is over'
              : ', without an overlap'}
            .
          </li>
          <li>The key gets a new secret, which you see next. Its id, limits and history stay.</li>
          <li>Programs that use the old one are refused, 401, until you give them the new one.</li>
        </ul>
        <FormProblem error={replace.error} />
      </div>
      <DialogActions>
        <Button onClick={onClose}>Cancel</Button>
        <Button look="danger" icon="warning" busy={replace.isPending} onClick={() => replace.mutate()}>
          Replace it now
        </Button>
      </DialogActions>
    </Dialog>
  );
}
