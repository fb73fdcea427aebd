import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import type { Change } from '#server/contract/keys.ts';
import type { UpstreamList, UpstreamRow } from '#server/contract/upstreams.ts';
import { api, ApiError } from '../../lib/api/api.ts';
import { modelsQuery } from '../../lib/api/queries.ts';
import { Button } from '../../ui/button.tsx';
import { Choices } from '../../ui/form/choices.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { SelectField, TextField } from '../../ui/form/field.tsx';
import { fieldError, FormProblem } from '../../ui/problem.tsx';
import { ListField } from '../../ui/terms/list-field.tsx';
import { useChange } from '../../ui/use-change.ts';
import { AdvancedSettings } from './advanced-settings.tsx';
import { choiceNamed, CHOICES, GROUPS, looksPrivate, defaultModels } from './provider-choices.ts';
import { toForm, newForm, toTerms, type UpstreamForm, defaultAddress } from './upstream-form.ts';
import { ownModelsQuery, upstreamsQuery } from './upstream-queries.ts';

type EditUpstreamProps = {
  /** Null to add an upstream. */ row: UpstreamRow | null;
  list: UpstreamList;
  onClose: () => void;
  onSaved: (name: string) => void;
};

const FIELDS = ['name', 'terms.base_url', 'terms.package', 'terms.options', 'terms.models', 'terms.routes'];

/** Adds or edits an upstream. Choosing the provider first fills in its defaults. */
export function EditUpstream({ row, list: { data, dialects }, onClose, onSaved }: EditUpstreamProps) {
  const [name, setName] = useState(() => row?.name ?? availableName('openai', data));
  const [isNamed, setNamed] = useState(row !== null);
  const [form, setForm] = useState<UpstreamForm>(() =>
    row ? toForm(row.terms) : newForm('openai', dialects),
  );
  const set = (part: Partial<UpstreamForm>): void => setForm((before) => ({ ...before, ...part }));
  const { data: own = [] } = useQuery({ ...ownModelsQuery(row?.name ?? ''), enabled: row !== null });
  const choice = choiceNamed(form.choice);
  const isBridge = choice.provider === 'bridge';

  const choose = (next: string): void => {
    const isDefault = form.address === defaultAddress(form.choice, dialects);
    const address = isDefault ? defaultAddress(next, dialects) : form.address;
    const hasDefaults = row === null && form.models.join(' ') === defaultModels(choice).join(' ');
    // Routes depend on the dialect.
    set({
      choice: next,
      address,
      routes: null,
      ...(hasDefaults ? { models: defaultModels(choiceNamed(next)) } : {}),
      ...(isDefault ? { network: looksPrivate(address) ? 'private' : 'public' } : {}),
    });
    if (!isNamed) setName(availableName(next === 'other' ? 'models' : next, data));
  };
  const terms = toTerms(form, row?.terms ?? null);
  const isSame =
    row !== null && JSON.stringify(terms) === JSON.stringify(toTerms(toForm(row.terms), row.terms));
  const save = useChange(
    () =>
      row
        ? api<Change>('PATCH', `/api/v1/upstreams/${row.name}`, { terms })
        : api<Change>('POST', '/api/v1/upstreams', { name, terms }),
    {
      done: row ? `Upstream ${row.name} saved.` : `Upstream ${name} added.`,
      invalidates: [upstreamsQuery.queryKey, modelsQuery.queryKey],
      onDone: () => onSaved(name),
    },
  );
  const send = (event: FormEvent): void => {
    event.preventDefault();
    save.mutate();
  };
  const isTaken = row === null && data.some(({ name: each, source }) => each === name && source !== 'demo');
  const nameError =
    save.error instanceof ApiError && save.error.code === 'already_exists'
      ? save.error.message
      : fieldError(save.error, 'name');
  return (
    <Dialog onClose={onClose} shape="side" title={row ? `Edit upstream ${row.name}` : 'Add upstream'}>
      <form onSubmit={send} className="flex flex-col gap-5">
        <ProviderField value={form.choice} isNew={row === null} onChange={choose} />
        {row === null && (
          <TextField
            ref={(element) => element?.setCustomValidity(isTaken ? 'An upstream with this name exists.' : '')}
            label="Name"
            required
            maxLength={64}
            pattern="[a-z0-9][a-z0-9._\-]*"
            autoComplete="off"
            autoCapitalize="none"
            spellCheck={false}
            value={name}
            onChange={({ target }) => {
              setName(target.value);
              setNamed(true);
            }}
            hint="Used in model routing and in the audit log. Can’t be changed later."
            error={isTaken ? 'An upstream with this name exists.' : nameError}
          />
        )}
        {isBridge && <PackageFields form={form} onChange={set} error={save.error} />}
        <TextField
          label={isBridge ? 'Base URL (optional)' : 'Base URL'}
          type="url"
          required={!isBridge}
          maxLength={500}
          autoComplete="off"
          spellCheck={false}
          className="font-mono"
          placeholder={choice.example ?? choice.address}
          value={form.address}
          onChange={({ target }) => set({ address: target.value })}
          hint={isBridge ? 'Defaults to the package’s address.' : 'Including the path prefix, such as /v1.'}
          error={fieldError(save.error, 'terms.base_url')}
        />
        <Choices
          legend="Network access"
          value={form.network}
          onChange={(network) => set({ network })}
          choices={[
            {
              value: 'public',
              label: 'Public internet only',
              hint: 'Connections to private addresses are blocked.',
            },
            {
              value: 'private',
              label: 'Public internet, localhost and private networks',
              hint: 'For self-hosted models. Cloud metadata services are always blocked.',
            },
          ]}
        />
        <div className="flex flex-col gap-1">
          <p className="font-medium">Models</p>
          <ListField
            // The field keeps its own text state; a new key resets it.
            key={form.choice}
            label="Models"
            value={form.models}
            onChange={(models) => set({ models })}
            placeholder={choice.models[0] ?? ''}
            suggestions={[...new Set([...choice.models, ...own])]}
            hint="Model names and patterns with * that this upstream serves. Empty: custom models only."
            error={fieldError(save.error, 'terms.models')}
          />
        </div>
        <AdvancedSettings
          form={form}
          defaults={choice.id in dialects ? dialects[choice.id as keyof typeof dialects].routes : null}
          onChange={set}
          error={save.error}
        />
        {row === null && (
          <Choices
            legend="Initial state"
            value={form.paused ? 'later' : 'now'}
            onChange={(when) => set({ paused: when === 'later' })}
            choices={[
              { value: 'now', label: 'Active' },
              {
                value: 'later',
                label: 'Paused',
                hint: 'Add a credential and test the connection before sending requests.',
              },
            ]}
          />
        )}
        <p className="text-xs text-muted">
          {row
            ? 'Applies to new requests on every server. Running requests are not affected.'
            : 'You can add a credential in the next step.'}
        </p>
        <FormProblem error={nameError === null ? save.error : null} fields={FIELDS} />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" disabled={isSame} busy={save.isPending}>
            {row ? 'Save changes' : 'Add upstream'}
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}

/** The name itself, or with the first free number appended. */
function availableName(name: string, existing: readonly UpstreamRow[]): string {
  const exists = (each: string): boolean => existing.some((row) => row.name === each);
  for (let number = 1; ; number++) {
    const each = number === 1 ? name : `${name}-${number}`;
    if (!exists(each)) return each;
  }
}

function ProviderField({
  value,
  isNew,
  onChange,
}: {
  value: string;
  isNew: boolean;
  onChange: (choice: string) => void;
}) {
  return (
    <SelectField
      label="Provider"
      value={value}
      onChange={({ target }) => onChange(target.value)}
      hint={isNew ? 'Fills in the provider’s defaults.' : 'Determines the API protocol.'}
    >
      {GROUPS.map((group) => (
        <optgroup key={group} label={group}>
          {CHOICES.filter((each) => each.group === group).map(({ id, name: text }) => (
            <option key={id} value={id}>
              {text}
            </option>
          ))}
        </optgroup>
      ))}
    </SelectField>
  );
}

/** The package of an AI SDK provider and its options. */
function PackageFields({
  form,
  onChange,
  error,
}: {
  form: UpstreamForm;
  onChange: (part: Partial<UpstreamForm>) => void;
  error: unknown;
}) {
  return (
    <>
      <TextField
        label="Package"
        required
        maxLength={100}
        autoComplete="off"
        spellCheck={false}
        className="font-mono"
        placeholder="@ai-sdk/amazon-bedrock"
        value={form.package}
        onChange={({ target }) => onChange({ package: target.value })}
        hint="An installed AI SDK package. Runs with the server’s permissions."
        error={fieldError(error, 'terms.package')}
      />
      <div className="flex flex-col gap-1">
        <p className="font-medium">Options</p>
        <ListField
          label="Options"
          value={form.options}
          onChange={(options) => onChange({ options })}
          placeholder="region=eu-west-1"
          hint="Passed to the package. Recorded in the audit log, so don’t enter secrets."
          error={fieldError(error, 'terms.options')}
        />
      </div>
    </>
  );
}
