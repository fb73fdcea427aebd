import { useState } from 'react';
import type { CreatedKey, KeyRow } from '#server/contract/keys.ts';
import { api, ApiError } from '../../lib/api.ts';
import { newUuid } from '../../lib/uuid.ts';
import { Button } from '../../ui/button.tsx';
import { Choices } from '../../ui/choices.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { SelectField, TextField } from '../../ui/field.tsx';
import { fieldError, FormProblem } from '../../ui/problem.tsx';
import { Ago } from '../../ui/when.tsx';
import { type Made, useSecretMaking } from './change-key.ts';
import { LastUsed } from './key-marks.tsx';

const HOUR_S = 3_600;
const DAY_S = 86_400;
const OVERLAPS = { none: 0, hour: HOUR_S, day: DAY_S, week: 7 * DAY_S } as const;
type Overlap = keyof typeof OVERLAPS | 'own';

/** A new secret for the same key. */
export function RotateDialog({
  row,
  onClose,
  onMade,
}: {
  row: KeyRow;
  onClose: () => void;
  onMade: (made: Made) => void;
}) {
  const [overlap, setOverlap] = useState<Overlap>('day');
  const [length, setLength] = useState('48');
  const [unitS, setUnitS] = useState(HOUR_S);
  // One for this dialog: sent twice because the first reply got lost, it does not rotate twice.
  const [rotation, setRotation] = useState(newUuid);
  const overlapS = overlap === 'own' ? Number(length) * unitS : OVERLAPS[overlap];
  const rotate = useSecretMaking(
    () => api<CreatedKey>('POST', `/api/keys/${row.id}/rotate`, { overlap_s: overlapS, rotation }),
    { why: 'rotated', name: row.name, models: row.terms?.models },
    onMade,
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
          The key stays what it is, with its id, limits and history, and gets a new secret. During the overlap
          both secrets work, so you can change your programs one after the other; the list tells when the old
          one was last used.
        </p>
        {row.state === 'rotating' && row.overlap_ends_at !== null && (
          <p role="note" className="rounded-lg border border-warn bg-warn-soft px-3 py-2">
            <strong className="font-semibold text-warn">An overlap is running already.</strong> A key has at
            most two secrets: the older one, <code className="font-mono text-xs">…{row.previous_last4}</code>,
            last used <LastUsed time={row.previous_last_used_at} />, ends as soon as you rotate, not{' '}
            <Ago time={row.overlap_ends_at} />.
          </p>
        )}
        <Choices
          legend="The old secret works on for"
          value={overlap}
          onChange={setOverlap}
          choices={[
            {
              value: 'none',
              label: 'No time',
              hint: 'Programs that still use it are refused from now on: 401.',
            },
            { value: 'hour', label: '1 hour' },
            { value: 'day', label: '24 hours' },
            { value: 'week', label: '7 days' },
            { value: 'own', label: 'Another time, up to 30 days' },
          ]}
        />
        {overlap === 'own' && (
          <div className="grid grid-cols-2 gap-3 pl-6">
            <TextField
              label="How long"
              type="number"
              required
              min={1}
              max={(30 * DAY_S) / unitS}
              step={1}
              value={length}
              onChange={({ target }) => setLength(target.value)}
              error={fieldError(rotate.error, 'overlap_s')}
            />
            <SelectField label="In" value={unitS} onChange={({ target }) => setUnitS(Number(target.value))}>
              <option value={HOUR_S}>hours</option>
              <option value={DAY_S}>days</option>
            </SelectField>
          </div>
        )}
        {wasDone ? (
          <div role="alert" className="rounded-lg border border-bad bg-bad-soft px-3 py-2">
            <p className="font-medium text-bad">
              The key was rotated, but the reply with the new secret got lost.
            </p>
            <p className="mt-1">
              Nobody knows that secret. Your programs can use the old one until its overlap ends. Rotating
              once more gives you a secret that you see, and ends the old one at once.
            </p>
            <Button
              className="mt-2"
              onClick={() => {
                rotate.reset();
                setRotation(newUuid());
              }}
            >
              Prepare another rotation
            </Button>
          </div>
        ) : (
          <FormProblem error={rotate.error} fields={['overlap_s']} />
        )}
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" busy={rotate.isPending} disabled={wasDone}>
            {rotate.isError && !wasDone ? 'Try again' : 'Rotate'}
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}
