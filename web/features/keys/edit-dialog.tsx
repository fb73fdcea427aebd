import { useState } from 'react';
import type { KeyTerms } from '#db/events/events.ts';
import type { Change, KeyRow } from '#server/contract/keys.ts';
import { api } from '../../lib/api/api.ts';
import { useZone } from '../../lib/hooks/preferences.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { TextField } from '../../ui/form/field.tsx';
import { fieldError, FormProblem } from '../../ui/problem.tsx';
import { isTermsError, TermsEditor } from '../../ui/terms/editor.tsx';
import { type WindowsChoice, WindowsField } from '../../ui/form/windows-choice.tsx';
import { useKeyChange } from './key-mutations.ts';
import { type ExpiryChoice, ExpiryField, expiryOf } from '../../ui/form/expiry-field.tsx';

const countsAnything = ({ requests_per_minute, tokens_per_minute, quotas }: KeyTerms): boolean =>
  requests_per_minute !== undefined || tokens_per_minute !== undefined || (quotas ?? []).length > 0;

/** Edits name, expiry and restrictions. Only changed fields are sent. */
export function EditDialog({ row, onClose }: { row: KeyRow; onClose: () => void }) {
  const zone = useZone();
  const before = row.terms ?? {};
  const [name, setName] = useState(row.name);
  const [expiry, setExpiry] = useState<ExpiryChoice>({ choice: 'keep', date: '' });
  const [terms, setTerms] = useState<KeyTerms>(before);
  const [windows, setWindows] = useState<WindowsChoice>('keep');
  const change = useKeyChange(
    () => {
      const expires = expiryOf(expiry, zone, Date.now());
      const isOther =
        windows === 'reset' || JSON.stringify(inOrder(terms)) !== JSON.stringify(inOrder(before));
      return api<Change>('PATCH', `/api/v1/keys/${row.id}`, {
        ...(name.trim() === row.name ? {} : { name: name.trim() }),
        ...(isOther ? { terms, windows } : {}),
        ...(expires === undefined ? {} : { expires_at: expires }),
      });
    },
    'Key updated.',
    onClose,
  );
  return (
    <Dialog onClose={onClose} title={`Edit ${row.name}`}>
      <form
        className="flex flex-col gap-5"
        onSubmit={(event) => {
          event.preventDefault();
          change.mutate();
        }}
      >
        <TextField
          label="Name"
          required
          maxLength={100}
          autoComplete="off"
          value={name}
          onChange={({ target }) => setName(target.value)}
          error={fieldError(change.error, 'name')}
        />
        <ExpiryField
          value={expiry}
          onChange={setExpiry}
          current={row.expires_at}
          error={fieldError(change.error, 'expires_at')}
        />
        <TermsEditor kind="key" terms={terms} onChange={setTerms} errors={change.error} />
        {countsAnything(terms) && <WindowsField value={windows} onChange={setWindows} />}
        <p className="text-muted">
          Takes effect immediately. Running requests that are no longer permitted are ended.
        </p>
        {!isTermsError(change.error) && <FormProblem error={change.error} fields={['name', 'expires_at']} />}
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" busy={change.isPending}>
            Save changes
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}

const inOrder = (terms: KeyTerms): unknown =>
  Object.entries(terms).toSorted(([one], [other]) => (one < other ? -1 : 1));
