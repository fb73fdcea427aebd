import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useId, useState } from 'react';
import type { Change } from '#server/contract/keys.ts';
import type { CreatedCredential, CredentialRow, UpstreamRow } from '#server/contract/upstreams.ts';
import { api } from '../../lib/api/api.ts';
import { Button } from '../../ui/button.tsx';
import { TextArea, TextField } from '../../ui/form/field.tsx';
import { fieldError, FormProblem } from '../../ui/problem.tsx';
import { When } from '../../ui/when.tsx';
import { HealthMark } from './health-mark.tsx';
import { credentialStatus } from './health-status.ts';
import { upstreamsQuery } from './upstream-queries.ts';

/** The last change, shown inside the dialog because the dialog covers toasts. */
export type LastChange = { done: string; change: Change } | null;

type CredentialsProps = { row: UpstreamRow; mayChange: boolean; onChanged: (change: LastChange) => void };

/** The credentials of an upstream with their health. */
export function Credentials({ row, mayChange, onChanged }: CredentialsProps) {
  const id = useId();
  const own = row.credentials.filter(({ source }) => source === 'log');
  const [isAdding, setAdding] = useState(own.length === 0 && mayChange);
  return (
    <section aria-labelledby={id}>
      <div className="mb-2 flex items-baseline justify-between gap-3">
        <h3 id={id} className="font-semibold">
          Credentials
        </h3>
        {mayChange && !isAdding && (
          <Button icon="plus" onClick={() => setAdding(true)}>
            Add credential
          </Button>
        )}
      </div>
      {own.length > 0 && (
        <ul className="mb-3 flex flex-col divide-y divide-line rounded-lg border border-line">
          {own.map((credential) => (
            <Credential
              key={credential.id}
              upstream={row.name}
              credential={credential}
              mayRemove={mayChange}
              isLast={own.length === 1}
              onChanged={onChanged}
            />
          ))}
        </ul>
      )}
      {own.length === 0 && !isAdding && (
        <p className="text-muted">
          {row.credentials[0]?.source === 'environment'
            ? row.source === 'demo'
              ? 'Built in'
              : 'Set by an environment variable'
            : 'No credential'}
        </p>
      )}
      {isAdding && (
        <AddForm
          row={row}
          labels={own.map(({ label }) => label)}
          onChanged={onChanged}
          onDone={() => setAdding(false)}
        />
      )}
    </section>
  );
}

type CredentialProps = {
  upstream: string;
  credential: CredentialRow;
  mayRemove: boolean;
  isLast: boolean;
  onChanged: CredentialsProps['onChanged'];
};

function Credential({ upstream, credential, mayRemove, isLast, onChanged }: CredentialProps) {
  const { id, label, last4, added_at: addedAt, health } = credential;
  const queries = useQueryClient();
  const [isSure, setSure] = useState(false);
  const remove = useMutation({
    mutationFn: () => api<Change>('DELETE', `/api/v1/upstreams/${upstream}/credentials/${id}`),
    onSuccess: (change) => {
      onChanged({ done: `Credential ${label} removed. Revoke it at the provider as well.`, change });
      void queries.invalidateQueries({ queryKey: upstreamsQuery.queryKey });
    },
  });
  return (
    <li className="flex flex-wrap items-start justify-between gap-x-4 gap-y-2 px-3 py-2">
      <div className="min-w-0">
        <p className="font-medium wrap-anywhere">
          {label} {last4 !== '' && <code className="font-mono text-xs font-normal text-muted">…{last4}</code>}
        </p>
        <p className="text-xs text-muted">
          <code className="font-mono">{id}</code>
          {addedAt !== null && (
            <>
              {' '}
              · added <When time={addedAt} form="date" />
            </>
          )}
          {health !== null && health.running > 0 && ` · ${health.running} running`}
        </p>
      </div>
      <div className="flex items-start gap-3 max-sm:w-full max-sm:justify-between">
        <div>
          <HealthMark status={credentialStatus(credential)} />
        </div>
        {mayRemove && !isSure && (
          <Button
            look="quiet"
            className="-my-1.5"
            aria-label={`Remove credential ${label}`}
            onClick={() => setSure(true)}
          >
            Remove
          </Button>
        )}
      </div>
      {isSure && (
        <div
          className={[
            'flex w-full flex-wrap items-center justify-between gap-2 rounded-md bg-warn-soft',
            'px-3 py-2',
          ].join(' ')}
        >
          <p className="min-w-0 flex-1 basis-60 text-warn">
            {isLast
              ? 'This is the last credential. Requests are then sent without one.'
              : 'Requests continue with the other credentials.'}
          </p>
          <span className="flex gap-2">
            <Button onClick={() => setSure(false)}>Cancel</Button>
            <Button look="danger" autoFocus busy={remove.isPending} onClick={() => remove.mutate()}>
              Remove credential
            </Button>
          </span>
          <FormProblem error={remove.error} />
        </div>
      )}
    </li>
  );
}

type AddFormProps = {
  row: UpstreamRow;
  labels: readonly string[];
  onChanged: CredentialsProps['onChanged'];
  onDone: () => void;
};

/** Adds a credential. The secret stays in this form until it is sent. */
function AddForm({ row: { name, terms }, labels, onChanged, onDone }: AddFormProps) {
  const queries = useQueryClient();
  const [label, setLabel] = useState(labels.length === 0 ? 'main' : '');
  const [secret, setSecret] = useState('');
  const add = useMutation({
    // Neither the input nor the response may reach the mutation cache.
    mutationFn: async () => {
      const { event } = await api<CreatedCredential>('POST', `/api/v1/upstreams/${name}/credentials`, {
        label: label.trim(),
        secret: secret.trim(),
      });
      return { event };
    },
    onSuccess: (change) => {
      setSecret('');
      onChanged({ done: `Credential ${label.trim()} added. Test the connection now.`, change });
      onDone();
      void queries.invalidateQueries({ queryKey: upstreamsQuery.queryKey });
    },
  });
  const send = (event: FormEvent): void => {
    event.preventDefault();
    add.mutate();
  };
  const field = {
    label: 'Secret',
    required: true,
    maxLength: 16_384,
    autoComplete: 'off',
    spellCheck: false,
    value: secret,
    error: fieldError(add.error, 'secret'),
  };
  return (
    <form onSubmit={send} className="flex flex-col gap-3 rounded-lg border border-line p-3">
      <div className="grid gap-3 sm:grid-cols-[1fr_2fr]">
        <TextField
          label="Label"
          required
          maxLength={100}
          autoComplete="off"
          value={label}
          onChange={({ target }) => setLabel(target.value)}
          hint="A name to identify it."
          error={fieldError(add.error, 'label')}
        />
        {terms.provider === 'bridge' ? (
          <TextArea
            {...field}
            rows={4}
            className="font-mono"
            onChange={({ target }) => setSecret(target.value)}
            hint="API key or service account file. Stored encrypted and never shown again."
          />
        ) : (
          <TextField
            {...field}
            type="password"
            onChange={({ target }) => setSecret(target.value)}
            hint="The provider’s API key. Stored encrypted and never shown again."
          />
        )}
      </div>
      <FormProblem error={add.error} fields={['label', 'secret']} />
      <div className="flex justify-end gap-2">
        <Button onClick={onDone}>{labels.length === 0 ? 'Skip' : 'Cancel'}</Button>
        <Button type="submit" look="primary" busy={add.isPending}>
          Add credential
        </Button>
      </div>
    </form>
  );
}
