import { useMutation, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { Route } from '#db/limits/limits.ts';
import type { CheckStep, KeyCheckResult, KeyRow } from '#server/contract/keys.ts';
import { api } from '../../lib/api/api.ts';
import { modelsQuery } from '../../lib/api/queries.ts';
import { adviceOn } from '../../lib/format/advice.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { SelectField, TextField } from '../../ui/form/field.tsx';
import { Icon } from '../../ui/icon.tsx';
import { WordOptions } from '../../ui/form/options.tsx';
import { fieldError, FormProblem } from '../../ui/problem.tsx';
import { ROUTE_NAMES } from '../../ui/terms/summary.ts';

/** Labels of the access checks. */
const STEPS: Record<CheckStep, string> = {
  key: 'Key',
  account: 'Account',
  plan: 'Plan',
  route: 'Route',
  origin: 'Origin',
  network: 'Network',
  model: 'Model',
  upstream: 'Upstream',
  price: 'Price (for cost quotas)',
  limits: 'Limits',
};

/** Checks whether a request would be accepted, without sending it. */
export function CheckDialog({ row, onClose }: { row: KeyRow; onClose: () => void }) {
  const models = useQuery(modelsQuery);
  const [model, setModel] = useState('');
  const [route, setRoute] = useState<Route>('/v1/chat/completions');
  const [origin, setOrigin] = useState('');
  const [address, setAddress] = useState('');
  const check = useMutation({
    mutationFn: () =>
      api<KeyCheckResult>('POST', `/api/v1/keys/${row.id}/check`, {
        model: model.trim(),
        route,
        ...(origin.trim() === '' ? {} : { origin: origin.trim() }),
        ...(address.trim() === '' ? {} : { address: address.trim() }),
      }),
  });
  return (
    <Dialog onClose={onClose} title={`Test access of ${row.name}`}>
      <form
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          check.mutate();
        }}
      >
        <p className="text-muted">
          Runs the same checks as a real request. Nothing is sent, charged or recorded.
        </p>
        <div className="grid items-start gap-3 sm:grid-cols-2">
          <TextField
            label="Model"
            required
            maxLength={256}
            list="check-models"
            autoComplete="off"
            spellCheck={false}
            value={model}
            onChange={({ target }) => setModel(target.value)}
            error={fieldError(check.error, 'model')}
          />
          <datalist id="check-models">
            {models.data?.map(({ id }) => (
              <option key={id} value={id} />
            ))}
          </datalist>
          <SelectField
            label="Route"
            hint={route}
            value={route}
            onChange={({ target }) => setRoute(target.value as Route)}
          >
            <WordOptions words={ROUTE_NAMES} />
          </SelectField>
          <TextField
            label="Origin"
            maxLength={200}
            autoComplete="off"
            placeholder="None"
            hint="For browser requests, such as https://app.example.com."
            value={origin}
            onChange={({ target }) => setOrigin(target.value)}
            error={fieldError(check.error, 'origin')}
          />
          <TextField
            label="IP address"
            maxLength={60}
            autoComplete="off"
            placeholder="Any"
            hint="Of the client, such as 203.0.113.7."
            value={address}
            onChange={({ target }) => setAddress(target.value)}
            error={fieldError(check.error, 'address')}
          />
        </div>
        <FormProblem error={check.error} fields={['model', 'origin', 'address']} />
        <div aria-live="polite" className={check.isPending ? 'opacity-90' : ''}>
          {check.data && <Verdict checked={check.data} />}
        </div>
        <DialogActions>
          <Button onClick={onClose}>Close</Button>
          <Button type="submit" look="primary" busy={check.isPending}>
            Test access
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}

function Verdict({ checked: { allowed, checks } }: { checked: KeyCheckResult }) {
  return (
    <section
      className={[
        'rounded-lg border p-3',
        allowed ? 'border-line bg-accent-soft' : 'border-danger bg-danger-soft',
      ].join(' ')}
    >
      <h3 className={`font-medium ${allowed ? 'text-accent' : 'text-danger'}`}>
        {allowed ? 'The request would be accepted' : 'The request would be rejected'}
      </h3>
      <ol className="mt-2 flex flex-col gap-1.5">
        {checks.map(({ step: what, passed, error: refusal }) => (
          <li key={what} className="flex gap-2">
            <Icon
              name={passed ? 'check' : 'close'}
              className={`mt-0.5 ${passed ? 'text-success' : 'text-danger'}`}
            />
            <div className="min-w-0">
              <p>
                {STEPS[what]}
                <span className={passed ? 'sr-only' : 'text-danger'}>{passed ? ': passed' : ': failed'}</span>
              </p>
              {refusal && (
                <>
                  <p>
                    {refusal.status} <code className="font-mono text-xs">{refusal.code}</code>:{' '}
                    {refusal.message}
                  </p>
                  <p className="text-muted">{adviceOn(refusal.code).todo}</p>
                </>
              )}
            </div>
          </li>
        ))}
      </ol>
    </section>
  );
}
