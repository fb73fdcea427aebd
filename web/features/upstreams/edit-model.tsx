import { type FormEvent, useState } from 'react';
import type { ModelTerms } from '#db/events/upstream-events.ts';
import type { Change } from '#server/contract/keys.ts';
import type { ModelRoute } from '#server/contract/models.ts';
import type { UpstreamRow } from '#server/contract/upstreams.ts';
import { api } from '../../lib/api/api.ts';
import { modelsQuery } from '../../lib/api/queries.ts';
import { Button } from '../../ui/button.tsx';
import { Choices } from '../../ui/form/choices.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { TextField } from '../../ui/form/field.tsx';
import { fieldError, FormProblem } from '../../ui/problem.tsx';
import { useChange } from '../../ui/use-change.ts';
import { newTarget, readTarget, TargetRows, type TypedTarget, typedTarget } from './target-rows.tsx';
import { listedBy, describeTargets } from './routing-words.ts';
import { dispatchQuery } from './upstream-queries.ts';

type EditModelProps = {
  /** Null to add a model. */ model: ModelRoute | null;
  models: readonly ModelRoute[];
  upstreams: readonly UpstreamRow[];
  onClose: () => void;
};

/** Edits the routing of a custom model, with a preview in plain English. */
export function EditModel({ model, models, upstreams, onClose }: EditModelProps) {
  const before = model?.terms;
  const [name, setName] = useState(model?.model ?? '');
  const [kind, setKind] = useState<'targets' | 'alias'>(before && 'alias_of' in before ? 'alias' : 'targets');
  const [aliasOf, setAliasOf] = useState(before && 'alias_of' in before ? before.alias_of : '');
  const [typed, setTyped] = useState<TypedTarget[]>(() =>
    before && 'targets' in before ? before.targets.map(typedTarget) : [newTarget(upstreams, 0)],
  );
  const terms: ModelTerms =
    kind === 'alias' ? { alias_of: aliasOf.trim() } : { targets: typed.map(readTarget) };
  const put = useChange(() => api<Change>('PUT', '/api/v1/dispatch', { model: name.trim(), terms }), {
    done: `Model ${name.trim()} ${model === null ? 'added' : 'saved'}.`,
    invalidates: [dispatchQuery.queryKey, modelsQuery.queryKey],
    onDone: onClose,
  });
  const send = (event: FormEvent): void => {
    event.preventDefault();
    put.mutate();
  };
  const known = model === null && models.some((each) => each.model === name.trim());
  const real = [
    ...new Set([
      ...models.filter((each) => 'targets' in each.terms).map((each) => each.model),
      ...upstreams.flatMap((each) => each.terms.models.filter((listed) => !listed.includes('*'))),
    ]),
  ].filter((each) => each !== name.trim());
  return (
    <Dialog
      onClose={onClose}
      shape="side"
      title={model === null ? 'Add model' : <>Edit model {model.model}</>}
    >
      <form onSubmit={send} className="flex flex-col gap-5">
        {model === null && (
          <TextField
            label="Name"
            required
            maxLength={256}
            autoComplete="off"
            autoCapitalize="none"
            spellCheck={false}
            className="font-mono"
            placeholder="fast"
            value={name}
            onChange={({ target }) => setName(target.value)}
            hint={
              known
                ? 'This model exists. Saving replaces it.'
                : 'The name that clients request. Takes precedence over models of upstreams.'
            }
            error={fieldError(put.error, 'model')}
          />
        )}
        <Choices
          legend="Routing"
          isInline
          value={kind}
          onChange={setKind}
          choices={[
            { value: 'targets', label: 'Upstreams' },
            { value: 'alias', label: 'Alias of another model' },
          ]}
        />
        {kind === 'alias' ? (
          <div>
            <TextField
              label="Alias of"
              required
              maxLength={256}
              list="alias-of"
              autoComplete="off"
              spellCheck={false}
              className="font-mono"
              value={aliasOf}
              onChange={({ target }) => setAliasOf(target.value)}
              hint="A custom model or a model of an upstream."
              error={fieldError(put.error, 'terms')}
            />
            <datalist id="alias-of">
              {real.map((each) => (
                <option key={each} value={each} />
              ))}
            </datalist>
          </div>
        ) : (
          <TargetRows model={name.trim()} targets={typed} upstreams={upstreams} onChange={setTyped} />
        )}
        <Preview name={name.trim()} terms={terms} upstreams={upstreams} models={models} />
        <FormProblem error={put.error} fields={['model', ...(kind === 'alias' ? ['terms'] : [])]} />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" busy={put.isPending}>
            {model === null ? 'Add model' : 'Save changes'}
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}

function Preview({
  name,
  terms,
  upstreams,
  models,
}: {
  name: string;
  terms: ModelTerms;
  upstreams: readonly UpstreamRow[];
  models: readonly ModelRoute[];
}) {
  return (
    <div aria-live="polite" className="rounded-lg bg-sunken px-3 py-2.5">
      {'targets' in terms ? (
        <>
          <ul className="flex flex-col gap-1">
            {describeTargets(
              name,
              terms.targets,
              new Set(upstreams.flatMap((each) => (each.terms.paused ? [each.name] : []))),
            ).map((line) => (
              <li key={line}>{line}</li>
            ))}
          </ul>
          {terms.targets.length > 1 && (
            <p className="mt-1.5 text-xs text-muted">
              Fallback happens only before the first byte of a reply. Targets that are much slower than others
              of the same priority temporarily receive less traffic.
            </p>
          )}
        </>
      ) : (
        <p>{describeAlias(terms.alias_of, upstreams, models)}</p>
      )}
    </div>
  );
}

function describeAlias(of: string, upstreams: readonly UpstreamRow[], models: readonly ModelRoute[]): string {
  if (of === '') return 'Select a model to see its routing.';
  const aliased = models.find(({ model }) => model === of)?.terms;
  if (aliased && 'targets' in aliased) return describeTargets(of, aliased.targets).join(' ');
  const by = listedBy(of, upstreams);
  return by === null ? `No model named ${of}.` : `All requests go to ${by} as ${of}.`;
}
