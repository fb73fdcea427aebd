import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import type { ConfiguredSink, SinkRow } from '#server/contract/sinks.ts';
import { api, ApiError } from '../../lib/api/api.ts';
import { accountsQuery } from '../../lib/api/names.ts';
import { Button } from '../../ui/button.tsx';
import { announceChange } from '../../ui/change.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { SecretDialog } from '../../ui/dialog/secret-dialog.tsx';
import { Choices } from '../../ui/form/choices.tsx';
import { Checkbox, SelectField, TextField } from '../../ui/form/field.tsx';
import { NamedOptions } from '../../ui/form/options.tsx';
import { fieldError, FormProblem } from '../../ui/problem.tsx';
import { ConfigFields } from './config-fields.tsx';
import { newForm, readIds, type SinkForm, toConfig } from './sink-form.ts';
import { sinksQuery } from './sink-queries.ts';
import { KIND_CHOICES, KINDS } from './sink-words.ts';

type EditSinkProps = {
  /** Null to add a sink. */ sink: SinkRow | null;
  onClose: () => void;
  /** Called with the id. */ onSaved: (id: string) => void;
};

const FIELDS = ['name', 'account', 'config.url', 'config.brokers', 'config.topic', 'config.code'];

/** Adds a sink, or replaces its configuration; of a webhook, then shows its signing secret once. */
export function EditSink({ sink, onClose, onSaved }: EditSinkProps) {
  const [saved, setSaved] = useState<{ id: string; secret: string } | null>(null);
  return saved === null ? (
    <SinkFields
      sink={sink}
      onClose={onClose}
      onSaved={({ id, secret }) => (secret === null ? onSaved(id) : setSaved({ id, secret }))}
    />
  ) : (
    <SecretDialog
      title="Signing secret"
      secret={saved.secret}
      what="secret"
      about="Your receiver uses it to verify deliveries. If you lose it, edit the sink to create a new one."
      onClose={() => onSaved(saved.id)}
    />
  );
}

function SinkFields({
  sink,
  onClose,
  onSaved,
}: Omit<EditSinkProps, 'onSaved'> & { onSaved: (saved: ConfiguredSink) => void }) {
  const queries = useQueryClient();
  const { data: accounts = [] } = useQuery(accountsQuery);
  const [name, setName] = useState(sink?.name ?? '');
  const [account, setAccount] = useState(sink?.account ?? '');
  const [start, setStart] = useState<'now' | 'first'>('now');
  const [form, setForm] = useState<SinkForm>(() => newForm(sink?.kind ?? 'webhook'));
  const { ids, problem } = readIds(form.ids, accounts);
  const save = useMutation({
    // The response contains a secret, so it must not reach the mutation cache.
    mutationFn: async () => {
      const config = toConfig(form, ids);
      const saved = await (sink === null
        ? api<ConfiguredSink>('POST', '/api/v1/sinks', {
            ...{ name, config, account: account === '' ? null : account },
            after: start === 'now' ? 'now' : 0,
          })
        : api<ConfiguredSink>('PUT', `/api/v1/sinks/${sink.name}/config`, { config }));
      announceChange(sink === null ? `Sink ${name} added.` : `Sink ${name} saved.`, saved);
      await queries.invalidateQueries({ queryKey: sinksQuery.queryKey });
      onSaved(saved);
    },
  });
  const send = (event: FormEvent): void => {
    event.preventDefault();
    save.mutate();
  };
  const nameError =
    save.error instanceof ApiError && save.error.code === 'already_exists'
      ? save.error.message
      : fieldError(save.error, 'name');
  return (
    <Dialog onClose={onClose} shape="side" title={sink ? `Edit sink ${sink.name}` : 'Add sink'}>
      <form onSubmit={send} className="flex flex-col gap-5">
        {sink === null ? (
          <>
            <TextField
              label="Name"
              required
              maxLength={64}
              pattern="[a-z0-9][a-z0-9._\-]*"
              placeholder="billing"
              autoComplete="off"
              autoCapitalize="none"
              spellCheck={false}
              value={name}
              onChange={({ target }) => setName(target.value)}
              hint="Recorded in the audit log. Can’t be changed later."
              error={nameError}
            />
            <Choices
              legend="Kind"
              value={form.kind}
              onChange={(kind) => setForm(newForm(kind))}
              choices={KIND_CHOICES}
            />
          </>
        ) : (
          <p className="rounded-lg bg-sunken px-3 py-2">
            Replaces the whole configuration, which is stored encrypted and can’t be shown. Kind (
            {KINDS[sink.kind].name}), scope and position stay.
            {sink.kind === 'webhook' && ' A new signing secret is created.'}
          </p>
        )}
        <ConfigFields
          form={form}
          onChange={(part) => setForm((before) => ({ ...before, ...part }))}
          idsProblem={problem}
          error={save.error}
        />
        <Checkbox
          label="Allow private network addresses"
          hint="Required for localhost and internal hosts. Cloud metadata services are always blocked."
          checked={form.isPrivate}
          onChange={({ target }) => setForm((before) => ({ ...before, isPrivate: target.checked }))}
        />
        {sink === null && (
          <>
            <SelectField
              label="Scope"
              value={account}
              onChange={({ target }) => setAccount(target.value)}
              hint={account === '' ? undefined : 'Events are delivered without upstream costs.'}
              error={fieldError(save.error, 'account')}
            >
              <option value="">All accounts</option>
              <NamedOptions rows={accounts} />
            </SelectField>
            <Choices
              legend="Start"
              value={start}
              onChange={setStart}
              choices={[
                { value: 'now', label: 'With the next event' },
                { value: 'first', label: 'With the first event of the log' },
              ]}
            />
          </>
        )}
        <FormProblem error={nameError === null ? save.error : null} fields={FIELDS} />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" disabled={problem !== null} busy={save.isPending}>
            {sink ? 'Replace configuration' : 'Add sink'}
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}
