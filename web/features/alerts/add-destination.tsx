import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { ALERT_DETAIL_FIELDS, type AlertKind } from '#db/alerts/alerts.ts';
import { DESTINATION_KINDS, type DestinationKind } from '#db/alerts/destination-kinds.ts';
import type { CreatedDestination } from '#server/contract/alerts.ts';
import { api } from '../../lib/api/api.ts';
import { accountsQuery } from '../../lib/api/names.ts';
import { FIELD_NAMES } from '../../lib/format/call-fields.ts';
import { Button } from '../../ui/button.tsx';
import { CopyButton } from '../../ui/copy.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { Choices } from '../../ui/form/choices.tsx';
import { Checkbox, SelectField, TextField } from '../../ui/form/field.tsx';
import { SecretDialog } from '../../ui/dialog/secret-dialog.tsx';
import { NamedOptions } from '../../ui/form/options.tsx';
import { fieldError, FormProblem } from '../../ui/problem.tsx';
import { destinationsQuery } from './alert-queries.ts';
import { ALERTS, DESTINATIONS, KINDS } from './alert-words.ts';
import { VERIFY_SNIPPET } from './verify-snippet.ts';

/** Adds a destination; of a webhook, then shows its signing secret once. */
export function AddDestination({ onClose }: { onClose: () => void }) {
  const [created, setCreated] = useState<string | null>(null);
  return created === null ? (
    <AddForm
      onClose={onClose}
      onCreated={({ secret }) => (secret === null ? onClose() : setCreated(secret))}
    />
  ) : (
    <Secret secret={created} onClose={onClose} />
  );
}

const PSEUDONYM = '16 letters and digits';
const PLACEHOLDERS: Partial<Record<(typeof ALERT_DETAIL_FIELDS)[number], string>> = {
  key: 'Id of a key',
  end_user: PSEUDONYM,
  session: PSEUDONYM,
  tag: PSEUDONYM,
};

function AddForm({
  onClose,
  onCreated,
}: {
  onClose: () => void;
  onCreated: (created: CreatedDestination) => void;
}) {
  const queries = useQueryClient();
  const { data: accounts = [] } = useQuery(accountsQuery);
  const [kind, setKind] = useState<DestinationKind>('webhook');
  const [address, setAddress] = useState('');
  const [account, setAccount] = useState('');
  const [alerts, setAlerts] = useState<readonly AlertKind[]>(KINDS);
  const [filter, setFilter] = useState<Record<string, string>>({});
  const [isPrivate, setPrivate] = useState(false);
  const add = useMutation({
    // The response contains a secret, so it must not reach the mutation cache.
    mutationFn: async () =>
      onCreated(
        await api<CreatedDestination>('POST', '/api/v1/destinations', {
          kind,
          address: address.trim(),
          account: account === '' ? null : account,
          alerts,
          filter: Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== '')),
          allow_private: isPrivate,
        }),
      ),
    onSuccess: () => queries.invalidateQueries({ queryKey: destinationsQuery.queryKey }),
  });
  const toggle = (alert: AlertKind): void =>
    setAlerts(KINDS.filter((each) => alerts.includes(each) !== (each === alert)));
  const words = DESTINATIONS[kind];
  return (
    <Dialog onClose={onClose} title="Add destination">
      <form
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          add.mutate();
        }}
      >
        <Choices
          legend="Kind"
          isInline
          value={kind}
          onChange={setKind}
          choices={DESTINATION_KINDS.map((value) => ({ value, label: DESTINATIONS[value].name }))}
        />
        <TextField
          label={words.address}
          type={kind === 'email' ? 'email' : 'url'}
          required
          maxLength={2_000}
          placeholder={words.placeholder}
          value={address}
          onChange={({ target }) => setAddress(target.value)}
          autoComplete="off"
          hint={words.hint}
          error={fieldError(add.error, 'address')}
        />
        <SelectField
          label="Scope"
          value={account}
          onChange={({ target }) => setAccount(target.value)}
          error={fieldError(add.error, 'account')}
        >
          <option value="">All accounts and system alerts</option>
          <NamedOptions rows={accounts} />
        </SelectField>
        <fieldset className="flex min-w-0 flex-col gap-2">
          <legend className="mb-1 font-medium">Alerts</legend>
          {KINDS.map((alert) => (
            <Checkbox
              key={alert}
              label={ALERTS[alert].name}
              hint={ALERTS[alert].about}
              checked={alerts.includes(alert)}
              onChange={() => toggle(alert)}
            />
          ))}
        </fieldset>
        <details className="rounded-lg border border-line">
          <summary className="px-3 py-2 font-medium">Only alerts about</summary>
          <div className="grid gap-3 border-t border-line p-3 sm:grid-cols-2">
            {ALERT_DETAIL_FIELDS.map((field) => (
              <TextField
                key={field}
                label={FIELD_NAMES[field]}
                value={filter[field] ?? ''}
                onChange={({ target }) => setFilter({ ...filter, [field]: target.value.trim() })}
                placeholder={PLACEHOLDERS[field]}
                autoComplete="off"
                spellCheck={false}
                error={fieldError(add.error, `filter.${field}`)}
              />
            ))}
            <p className="text-xs text-muted sm:col-span-2">
              An alert must be about all of these. An alert that isn’t about a model matches no filter by
              model.
            </p>
          </div>
        </details>
        {kind !== 'email' && (
          <Checkbox
            label="Allow private network addresses"
            hint="Required for localhost and internal hosts. Cloud metadata services are always blocked."
            checked={isPrivate}
            onChange={({ target }) => setPrivate(target.checked)}
          />
        )}
        <FormProblem error={add.error} fields={['address', 'account']} />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" disabled={alerts.length === 0} busy={add.isPending}>
            Add destination
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}

function Secret({ secret, onClose }: { secret: string; onClose: () => void }) {
  return (
    <SecretDialog
      title="Signing secret"
      secret={secret}
      what="secret"
      about="Your endpoint uses it to verify deliveries. If you lose it, add a new webhook."
      onClose={onClose}
    >
      <details className="rounded-lg border border-line">
        <summary className="px-3 py-2 font-medium">Verify signatures</summary>
        <div className="flex flex-col gap-2 border-t border-line p-3">
          <p className="text-xs text-muted">
            Deliveries are signed according to{' '}
            <a href="https://www.standardwebhooks.com" rel="noreferrer" target="_blank" className="underline">
              Standard Webhooks
            </a>{' '}
            , with libraries for most languages. In Node.js without a library:
          </p>
          <pre
            className="max-h-56 overflow-auto rounded-md bg-sunken p-2.5 font-mono text-xs"
            tabIndex={0}
            aria-label="JavaScript code"
          >
            {VERIFY_SNIPPET}
          </pre>
          <div>
            <CopyButton text={VERIFY_SNIPPET} label="Copy code" />
          </div>
        </div>
      </details>
    </SecretDialog>
  );
}
