import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import type { Change } from '#server/contract/keys.ts';
import type { UpstreamList, UpstreamRow } from '#server/contract/upstreams.ts';
import { api, ApiError } from '../../lib/api.ts';
import { modelsQuery } from '../../lib/models-query.ts';
import { Button } from '../../ui/button.tsx';
import { Choices } from '../../ui/choices.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { SelectField, TextField } from '../../ui/field.tsx';
import { fieldError, FormProblem } from '../../ui/problem.tsx';
import { ListField } from '../../ui/terms/list-field.tsx';
import { useChange } from '../../ui/use-change.ts';
import { MoreTerms } from './more-terms.tsx';
import { choiceNamed, CHOICES, GROUPS, looksPrivate, usualModels } from './provider-choices.ts';
import { formOf, newForm, termsOf, type UpstreamForm, usualAddress } from './upstream-form.ts';
import { ownModelsQuery, upstreamsQuery } from './upstream-queries.ts';

type EditUpstreamProps = {
  /** Null: a new one. */ row: UpstreamRow | null;
  list: UpstreamList;
  onClose: () => void;
  onSaved: (name: string) => void;
};

const FIELDS = ['name', 'terms.base_url', 'terms.package', 'terms.options', 'terms.models', 'terms.routes'];

/**
 * Adds an upstream, or gives one other terms. Whom it is comes first: the rest begins with what is usual
 * there.
 */
export function EditUpstream({ row, list: { data, dialects }, onClose, onSaved }: EditUpstreamProps) {
  const [name, setName] = useState(() => row?.name ?? freeName('openai', data));
  const [isNamed, setNamed] = useState(row !== null);
  const [form, setForm] = useState<UpstreamForm>(() =>
    row ? formOf(row.terms) : newForm('openai', dialects),
  );
  const set = (part: Partial<UpstreamForm>): void => setForm((before) => ({ ...before, ...part }));
  const { data: own = [] } = useQuery({ ...ownModelsQuery(row?.name ?? ''), enabled: row !== null });
  const choice = choiceNamed(form.choice);
  const isBridge = choice.provider === 'bridge';

  const choose = (next: string): void => {
    const isUsual = form.address === usualAddress(form.choice, dialects);
    const address = isUsual ? usualAddress(next, dialects) : form.address;
    const hasUsual = row === null && form.models.join(' ') === usualModels(choice).join(' ');
    // Routes are those of a dialect: another one speaks others.
    set({
      choice: next,
      address,
      routes: null,
      ...(hasUsual ? { models: usualModels(choiceNamed(next)) } : {}),
      ...(isUsual ? { network: looksPrivate(address) ? 'private' : 'public' } : {}),
    });
    if (!isNamed) setName(freeName(next === 'other' ? 'models' : next, data));
  };
  const terms = termsOf(form, row?.terms ?? null);
  const isSame =
    row !== null && JSON.stringify(terms) === JSON.stringify(termsOf(formOf(row.terms), row.terms));
  const save = useChange(
    () =>
      row
        ? api<Change>('PATCH', `/api/upstreams/${row.name}`, { terms })
        : api<Change>('POST', '/api/upstreams', { name, terms }),
    {
      done: row ? `Upstream ${row.name} changed.` : `Upstream ${name} added.`,
      altered: [upstreamsQuery.queryKey, modelsQuery.queryKey],
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
    <Dialog onClose={onClose} shape="side" title={row ? `Change upstream ${row.name}` : 'Add an upstream'}>
      <form onSubmit={send} className="flex flex-col gap-5">
        <SelectField
          label="Who is it?"
          value={form.choice}
          onChange={({ target }) => choose(target.value)}
          hint={
            row
              ? 'A change here changes how it is spoken to.'
              : 'The rest is filled in with what is usual there.'
          }
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
        {row === null && (
          <TextField
            ref={(element) =>
              element?.setCustomValidity(isTaken ? 'There is an upstream of this name already.' : '')
            }
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
            hint="What people and models tell it by, here and in the log. It can’t be changed later."
            error={isTaken ? 'There is an upstream of this name already.' : nameError}
          />
        )}
        {isBridge && (
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
              onChange={({ target }) => set({ package: target.value })}
              hint="Install it beside Daybook first. It runs with all that the server may do: take one that you trust."
              error={fieldError(save.error, 'terms.package')}
            />
            <div className="flex flex-col gap-1">
              <p className="font-medium">Options</p>
              <ListField
                label="Options"
                value={form.options}
                onChange={(options) => set({ options })}
                placeholder="region=eu-west-1"
                hint="Given to the package. They are in the log, so no place for secrets."
                error={fieldError(save.error, 'terms.options')}
              />
            </div>
          </>
        )}
        <TextField
          label={isBridge ? 'Address (optional)' : 'Address'}
          type="url"
          required={!isBridge}
          maxLength={500}
          autoComplete="off"
          spellCheck={false}
          className="font-mono"
          placeholder={choice.example ?? choice.address}
          value={form.address}
          onChange={({ target }) => set({ address: target.value })}
          hint={
            isBridge
              ? 'Only where it is not where the package expects it.'
              : 'Up to what all its paths begin with, such as /v1.'
          }
          error={fieldError(save.error, 'terms.base_url')}
        />
        <Choices
          legend="Where may its address lead?"
          value={form.network}
          onChange={(network) => set({ network })}
          choices={[
            {
              value: 'public',
              label: 'To the internet alone',
              hint: 'Whatever its name stands for: a private address is refused at each connection.',
            },
            {
              value: 'private',
              label: 'Also to this machine and to private networks',
              hint: 'For a model server of your own. Metadata services of clouds are never called.',
            },
          ]}
        />
        <div className="flex flex-col gap-1">
          <p className="font-medium">Serves by name</p>
          <ListField
            // It keeps what is typed to itself, so that another choice takes another one.
            key={form.choice}
            label="Names and patterns of models"
            value={form.models}
            onChange={(models) => set({ models })}
            placeholder={choice.models[0] ?? ''}
            suggestions={[...new Set([...choice.models, ...own])]}
            hint="Models that clients may ask for by these very names; * stands for anything. Without any, only models that are defined to go there do."
            error={fieldError(save.error, 'terms.models')}
          />
        </div>
        <MoreTerms
          form={form}
          usual={choice.id in dialects ? dialects[choice.id as keyof typeof dialects].routes : null}
          onChange={set}
          error={save.error}
        />
        {row === null && (
          <Choices
            legend="When do calls go there?"
            value={form.paused ? 'later' : 'now'}
            onChange={(when) => set({ paused: when === 'later' })}
            choices={[
              { value: 'now', label: 'At once' },
              {
                value: 'later',
                label: 'Not before I resume it',
                hint: 'Time for its credential and a test, where others serve the same names already.',
              },
            ]}
          />
        )}
        <p className="text-xs text-muted">
          {row
            ? 'It holds for calls that begin from now on, on every server. Running calls end as they would.'
            : 'Its credential comes next: it has a place of its own, and is never shown again.'}
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

/** The name, or the first of it with a number that nobody has. */
function freeName(name: string, taken: readonly UpstreamRow[]): string {
  const has = (each: string): boolean => taken.some((row) => row.name === each);
  for (let number = 1; ; number++) {
    const each = number === 1 ? name : `${name}-${number}`;
    if (!has(each)) return each;
  }
}
