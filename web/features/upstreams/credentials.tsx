import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useId, useState } from 'react';
import type { Change } from '#server/contract/keys.ts';
import type { CreatedCredential, CredentialRow, UpstreamRow } from '#server/contract/upstreams.ts';
import { api } from '../../lib/api.ts';
import { Button } from '../../ui/button.tsx';
import { TextArea, TextField } from '../../ui/field.tsx';
import { fieldError, FormProblem } from '../../ui/problem.tsx';
import { When } from '../../ui/when.tsx';
import { HealthMark } from './health-mark.tsx';
import { credentialStanding } from './health-words.ts';
import { upstreamsQuery } from './upstream-queries.ts';

/** What was done in the dialog, which lies over where changes are told of otherwise. */
export type Told = { done: string; change: Change } | null;

type CredentialsProps = { row: UpstreamRow; mayChange: boolean; onTold: (told: Told) => void };

/** What an upstream is asked with, and how each of them fares. */
export function Credentials({ row, mayChange, onTold }: CredentialsProps) {
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
            Add a credential
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
              onTold={onTold}
            />
          ))}
        </ul>
      )}
      {own.length === 0 && !isAdding && (
        <p className="text-muted">
          {row.credentials[0]?.source === 'environment'
            ? row.source === 'demo'
              ? 'It has one of its own.'
              : 'It has the one that the environment gives.'
            : 'It is asked without one.'}
        </p>
      )}
      {isAdding && (
        <AddForm
          row={row}
          taken={own.map(({ label }) => label)}
          onTold={onTold}
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
  onTold: CredentialsProps['onTold'];
};

function Credential({ upstream, credential, mayRemove, isLast, onTold }: CredentialProps) {
  const { id, label, last4, added_at: addedAt, health } = credential;
  const queries = useQueryClient();
  const [isSure, setSure] = useState(false);
  const remove = useMutation({
    mutationFn: () => api<Change>('DELETE', `/api/upstreams/${upstream}/credentials/${id}`),
    onSuccess: (change) => {
      onTold({ done: `Credential ${label} is removed. Withdraw it at the provider, too.`, change });
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
          <HealthMark standing={credentialStanding(credential)} />
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
        <div className="flex w-full flex-wrap items-center justify-between gap-2 rounded-md bg-warn-soft px-3 py-2">
          <p className="min-w-0 flex-1 basis-60 text-warn">
            {isLast
              ? 'For good. It is the last one: the upstream is then asked without any.'
              : 'For good. Calls go on with the others.'}
          </p>
          <span className="flex gap-2">
            <Button onClick={() => setSure(false)}>Keep it</Button>
            <Button look="danger" autoFocus busy={remove.isPending} onClick={() => remove.mutate()}>
              Remove it
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
  taken: readonly string[];
  onTold: CredentialsProps['onTold'];
  onDone: () => void;
};

/** Takes a secret in. It is in these fields until it is sent, and nowhere in the page afterwards. */
function AddForm({ row: { name, terms }, taken, onTold, onDone }: AddFormProps) {
  const queries = useQueryClient();
  const [label, setLabel] = useState(taken.length === 0 ? 'main' : '');
  const [secret, setSecret] = useState('');
  const add = useMutation({
    // Neither what goes in nor what comes back stays where mutations are kept.
    mutationFn: async () => {
      const { event } = await api<CreatedCredential>('POST', `/api/upstreams/${name}/credentials`, {
        label: label.trim(),
        secret: secret.trim(),
      });
      return { event };
    },
    onSuccess: (change) => {
      setSecret('');
      onTold({ done: `Credential ${label.trim()} is added, and sealed. Test it now.`, change });
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
          hint="What people tell it by."
          error={fieldError(add.error, 'label')}
        />
        {terms.provider === 'bridge' ? (
          <TextArea
            {...field}
            rows={4}
            className="font-mono"
            onChange={({ target }) => setSecret(target.value)}
            hint="An API key, or the file of an account. Sealed in the database, and never shown again."
          />
        ) : (
          <TextField
            {...field}
            type="password"
            onChange={({ target }) => setSecret(target.value)}
            hint="The provider’s API key. Sealed in the database, and never shown again."
          />
        )}
      </div>
      <FormProblem error={add.error} fields={['label', 'secret']} />
      <div className="flex justify-end gap-2">
        <Button onClick={onDone}>{taken.length === 0 ? 'It needs none' : 'Cancel'}</Button>
        <Button type="submit" look="primary" busy={add.isPending}>
          Add credential
        </Button>
      </div>
    </form>
  );
}
