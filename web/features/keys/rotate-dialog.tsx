import { useState } from 'react';
import type { CreatedKey, KeyRow } from '#server/contract/keys.ts';
import { api, ApiError } from '../../lib/api/api.ts';
import { newUuid } from '../../lib/api/uuid.ts';
import { Button } from '../../ui/button.tsx';
import { Choices } from '../../ui/form/choices.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { SelectField, TextField } from '../../ui/form/field.tsx';
import { fieldError, FormProblem } from '../../ui/problem.tsx';
import { type NewSecret, useSecretMutation } from './key-mutations.ts';
import { LastUsed } from './key-marks.tsx';

const HOUR_S = 3_600;
const DAY_S = 86_400;
const OVERLAPS = { none: 0, hour: HOUR_S, day: DAY_S, week: 7 * DAY_S } as const;
type Overlap = keyof typeof OVERLAPS | 'own';

/** Issues a new secret for a key. */
export function RotateDialog({
  row,
  onClose,
  onCreated,
}: {
  row: KeyRow;
  onClose: () => void;
  onCreated: (made: NewSecret) => void;
}) {
  const [overlap, setOverlap] = useState<Overlap>('day');
  const [length, setLength] = useState('48');
  const [unitS, setUnitS] = useState(HOUR_S);
  // The idempotency key: a retry after a lost response does not rotate twice.
  const [rotation, setRotation] = useState(newUuid);
  const overlapS = overlap === 'own' ? Number(length) * unitS : OVERLAPS[overlap];
  const rotate = useSecretMutation(
    () => api<CreatedKey>('POST', `/api/v1/keys/${row.id}/rotate`, { overlap_s: overlapS, rotation }),
    { why: 'rotated', name: row.name, models: row.terms?.models },
    onCreated,
  );
  const wasDone = rotate.error instanceof ApiError && rotate.error.code === 'already_done';
  return (
    <Dialog onClose={onClose} title={`Rotate ${row.name}`}>
      <form
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          rotate.mutate();
        }}
      >
        <p>
          Issues a new secret for this key. During the overlap both secrets work, so that you can update
          clients one by one.
        </p>
        {row.state === 'rotating' && row.overlap_ends_at !== null && (
          <p role="note" className="rounded-lg border border-warn bg-warn-soft px-3 py-2">
            <strong className="font-semibold text-warn">This key is already rotating.</strong>
            {' The old secret '}
            <code className="font-mono text-xs">…{row.previous_last4}</code>, last used{' '}
            <LastUsed time={row.previous_last_used_at} />, expires immediately when you rotate again.
          </p>
        )}
        <Choices
          legend="Old secret expires"
          value={overlap}
          onChange={setOverlap}
          choices={[
            {
              value: 'none',
              label: 'Immediately',
              hint: 'Clients that still use it are rejected with 401.',
            },
            { value: 'hour', label: 'In 1 hour' },
            { value: 'day', label: 'In 24 hours' },
            { value: 'week', label: 'In 7 days' },
            { value: 'own', label: 'Custom, up to 30 days' },
          ]}
        />
        {overlap === 'own' && (
          <div className="grid grid-cols-2 gap-3 pl-6">
            <TextField
              label="Overlap"
              type="number"
              required
              min={1}
              max={(30 * DAY_S) / unitS}
              step={1}
              value={length}
              onChange={({ target }) => setLength(target.value)}
              error={fieldError(rotate.error, 'overlap_s')}
            />
            <SelectField label="Unit" value={unitS} onChange={({ target }) => setUnitS(Number(target.value))}>
              <option value={HOUR_S}>Hours</option>
              <option value={DAY_S}>Days</option>
            </SelectField>
          </div>
        )}
        {wasDone ? (
          <div role="alert" className="rounded-lg border border-danger bg-danger-soft px-3 py-2">
            <p className="font-medium text-danger">
              The key was rotated, but the response with the new secret was lost.
            </p>
            <p className="mt-1">
              The new secret can’t be recovered. Rotate again to get another one. The old secret then expires
              immediately.
            </p>
            <Button
              className="mt-2"
              onClick={() => {
                rotate.reset();
                setRotation(newUuid());
              }}
            >
              Rotate again
            </Button>
          </div>
        ) : (
          <FormProblem error={rotate.error} fields={['overlap_s']} />
        )}
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" busy={rotate.isPending} disabled={wasDone}>
            {rotate.isError && !wasDone ? 'Try again' : 'Rotate key'}
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}
