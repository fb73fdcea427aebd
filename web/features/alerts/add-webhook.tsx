import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { AlertKind } from '#db/alerts/alerts.ts';
import type { CreatedWebhook } from '#server/contract/alerts.ts';
import { api } from '../../lib/api.ts';
import { accountsQuery } from '../../lib/names.ts';
import { Button } from '../../ui/button.tsx';
import { CopyButton } from '../../ui/copy.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { Checkbox, SelectField, TextField } from '../../ui/field.tsx';
import { Once } from '../../ui/once.tsx';
import { NamedOptions } from '../../ui/options.tsx';
import { fieldError, FormProblem } from '../../ui/problem.tsx';
import { webhooksQuery } from './alert-queries.ts';
import { ALERTS, KINDS } from './alert-words.ts';
import { VERIFY_SNIPPET } from './verify-snippet.ts';

/** Adds a webhook, then shows the secret that its deliveries are signed with, this once. */
export function AddWebhook({ onClose }: { onClose: () => void }) {
  const [made, setMade] = useState<CreatedWebhook | null>(null);
  return made === null ? (
    <AddForm onClose={onClose} onMade={setMade} />
  ) : (
    <Secret made={made} onClose={onClose} />
  );
}

function AddForm({ onClose, onMade }: { onClose: () => void; onMade: (made: CreatedWebhook) => void }) {
  const queries = useQueryClient();
  const { data: accounts = [] } = useQuery(accountsQuery);
  const [url, setUrl] = useState('');
  const [account, setAccount] = useState('');
  const [alerts, setAlerts] = useState<readonly AlertKind[]>(KINDS);
  const [isPrivate, setPrivate] = useState(false);
  const add = useMutation({
    // What it replies holds a secret, so nothing of that is kept where mutations are.
    mutationFn: async () =>
      onMade(
        await api<CreatedWebhook>('POST', '/api/webhooks', {
          url: url.trim(),
          account: account === '' ? null : account,
          alerts,
          allow_private: isPrivate,
        }),
      ),
    onSuccess: () => queries.invalidateQueries({ queryKey: webhooksQuery.queryKey }),
  });
  const toggle = (kind: AlertKind): void =>
    setAlerts(KINDS.filter((each) => alerts.includes(each) !== (each === kind)));
  return (
    <Dialog onClose={onClose} title="Add a webhook">
      <form
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          add.mutate();
        }}
      >
        <TextField
          label="Address"
          type="url"
          required
          maxLength={2_000}
          placeholder="https://alerts.example.com/daybook"
          value={url}
          onChange={({ target }) => setUrl(target.value)}
          autoComplete="off"
          hint="It takes a POST for each alert. It is kept sealed; later only its host is shown."
          error={fieldError(add.error, 'url')}
        />
        <SelectField
          label="About"
          value={account}
          onChange={({ target }) => setAccount(target.value)}
          error={fieldError(add.error, 'account')}
        >
          <option value="">All accounts, and the installation</option>
          <NamedOptions rows={accounts} />
        </SelectField>
        <fieldset className="flex min-w-0 flex-col gap-2">
          <legend className="mb-1 font-medium">Alerts</legend>
          {KINDS.map((kind) => (
            <Checkbox
              key={kind}
              label={ALERTS[kind].name}
              hint={ALERTS[kind].about}
              checked={alerts.includes(kind)}
              onChange={() => toggle(kind)}
            />
          ))}
        </fieldset>
        <Checkbox
          label="It may be in a private network"
          hint="Needed for an address on this machine or in a network of your own. Metadata services of clouds are never called."
          checked={isPrivate}
          onChange={({ target }) => setPrivate(target.checked)}
        />
        <FormProblem error={add.error} fields={['url', 'account']} />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" disabled={alerts.length === 0} busy={add.isPending}>
            Add webhook
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}

function Secret({ made: { secret }, onClose }: { made: CreatedWebhook; onClose: () => void }) {
  return (
    <Once
      title="The webhook’s secret"
      secret={secret}
      what="secret"
      about="Give it to the receiver, which checks with it that a delivery is from this relay. It is kept sealed here; whoever loses it adds a new webhook."
      onClose={onClose}
    >
      <details className="rounded-lg border border-line">
        <summary className="px-3 py-2 font-medium">How the receiver checks a signature</summary>
        <div className="flex flex-col gap-2 border-t border-line p-3">
          <p className="text-xs text-muted">
            Deliveries follow the{' '}
            <a href="https://www.standardwebhooks.com" rel="noreferrer" target="_blank" className="underline">
              Standard Webhooks
            </a>{' '}
            scheme, for which there are libraries in most languages. In Node without one:
          </p>
          <pre
            className="max-h-56 overflow-auto rounded-md bg-sunken p-2.5 font-mono text-xs"
            tabIndex={0}
            aria-label="Lines of JavaScript"
          >
            {VERIFY_SNIPPET}
          </pre>
          <div>
            <CopyButton text={VERIFY_SNIPPET} label="Copy the lines" />
          </div>
        </div>
      </details>
    </Once>
  );
}
