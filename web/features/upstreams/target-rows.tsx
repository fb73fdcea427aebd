import { useQuery } from '@tanstack/react-query';
import { useId } from 'react';
import type { Target } from '#db/events/upstream-events.ts';
import type { UpstreamRow } from '#server/contract/upstreams.ts';
import { Button, IconButton } from '../../ui/button.tsx';
import { SelectField, TextField } from '../../ui/form/field.tsx';
import { ownModelsQuery } from './upstream-queries.ts';

/** A target as typed; `id` identifies its row. */
export type TypedTarget = { id: number; upstream: string; model: string; weight: string; order: number };

let lastId = 0;

export const newTarget = (
  upstreams: readonly UpstreamRow[],
  order: number,
  used: readonly string[] = [],
): TypedTarget => {
  // Prefers an upstream that is not used yet and is not the demo.
  const fresh = upstreams.filter(({ name }) => !used.includes(name));
  const first = fresh.find(({ source }) => source !== 'demo') ?? fresh[0] ?? upstreams[0];
  return { id: ++lastId, upstream: first?.name ?? '', model: '', weight: '1', order };
};

export const typedTarget = ({ upstream, model = '', weight, order }: Target): TypedTarget => ({
  id: ++lastId,
  upstream,
  model,
  weight: String(weight),
  order,
});

export const readTarget = ({ upstream, model, weight, order }: TypedTarget): Target => ({
  upstream,
  ...(model.trim() === '' ? {} : { model: model.trim() }),
  weight: Number(weight) || 0,
  order,
});

const PRIORITIES = ['Primary', 'Fallback 1', 'Fallback 2', 'Fallback 3', 'Fallback 4', 'Fallback 5'];
const TARGETS_MAX = 16;

type TargetRowsProps = {
  model: string;
  targets: readonly TypedTarget[];
  upstreams: readonly UpstreamRow[];
  onChange: (targets: TypedTarget[]) => void;
};

/** Targets with priority and weight. */
export function TargetRows({ model, targets, upstreams, onChange }: TargetRowsProps) {
  const set = (id: number, part: Partial<TypedTarget>): void =>
    onChange(targets.map((each) => (each.id === id ? { ...each, ...part } : each)));
  const add = (order: number): void =>
    onChange([
      ...targets,
      newTarget(
        upstreams,
        order,
        targets.map(({ upstream }) => upstream),
      ),
    ]);
  const last = Math.max(0, ...targets.map(({ order }) => order));
  return (
    <fieldset className="min-w-0">
      <legend className="mb-1.5 font-medium">Targets</legend>
      <ul className="flex flex-col gap-2">
        {targets.map((target, index) => (
          <TargetRow
            key={target.id}
            model={model}
            target={target}
            number={index + 1}
            priorities={Math.min(PRIORITIES.length, Math.max(last + 1, targets.length))}
            upstreams={upstreams}
            onChange={(part) => set(target.id, part)}
            onRemove={
              targets.length > 1 ? () => onChange(targets.filter(({ id }) => id !== target.id)) : null
            }
          />
        ))}
      </ul>
      {targets.length > 1 && (
        <p className="mt-2 text-xs text-muted">
          Requests are balanced by weight among targets of the same priority. Weight 0 is a standby.
        </p>
      )}
      {targets.length < TARGETS_MAX && (
        <div className="mt-2 flex flex-wrap gap-2">
          <Button icon="plus" onClick={() => add(0)}>
            Add target
          </Button>
          <Button icon="plus" onClick={() => add(Math.min(PRIORITIES.length - 1, last + 1))}>
            Add fallback
          </Button>
        </div>
      )}
    </fieldset>
  );
}

type TargetRowProps = {
  model: string;
  target: TypedTarget;
  number: number;
  priorities: number;
  upstreams: readonly UpstreamRow[];
  onChange: (part: Partial<TypedTarget>) => void;
  onRemove: (() => void) | null;
};

function TargetRow({
  model,
  target: { upstream, model: own, weight, order },
  number,
  priorities,
  upstreams,
  onChange,
  onRemove,
}: TargetRowProps) {
  const id = useId();
  const { data: suggestions = [] } = useQuery({ ...ownModelsQuery(upstream), enabled: upstream !== '' });
  const isKnown = upstreams.some(({ name }) => name === upstream);
  return (
    <li
      aria-label={`Target ${number}`}
      className={[
        'grid grid-cols-2 items-start gap-3 rounded-lg border border-line p-3',
        'sm:grid-cols-[1fr_1.2fr_7.5rem_4.5rem_auto]',
      ].join(' ')}
    >
      <p className={`order-first self-center font-medium sm:hidden ${onRemove ? '' : 'col-span-2'}`}>
        Target {number}
      </p>
      <SelectField
        label="Upstream"
        value={upstream}
        onChange={({ target }) => onChange({ upstream: target.value })}
        className="w-full"
      >
        {!isKnown && <option value={upstream}>{upstream} (not found)</option>}
        {upstreams.map(({ name, terms }) => (
          <option key={name} value={name}>
            {name}
            {terms.paused ? ' (paused)' : ''}
          </option>
        ))}
      </SelectField>
      <div>
        <TextField
          label="Upstream model"
          maxLength={256}
          list={suggestions.length === 0 ? undefined : id}
          autoComplete="off"
          spellCheck={false}
          className="font-mono"
          placeholder={model === '' ? 'Same name' : model}
          value={own}
          onChange={({ target }) => onChange({ model: target.value })}
        />
        <datalist id={id}>
          {suggestions.map((each) => (
            <option key={each} value={each} />
          ))}
        </datalist>
      </div>
      <SelectField
        label="Priority"
        value={String(order)}
        onChange={({ target }) => onChange({ order: Number(target.value) })}
        className="w-full"
      >
        {PRIORITIES.slice(0, Math.max(priorities, order + 1)).map((name, priority) => (
          <option key={name} value={priority}>
            {name}
          </option>
        ))}
        {order >= PRIORITIES.length && <option value={order}>{order + 1}.</option>}
      </SelectField>
      <TextField
        label="Weight"
        type="number"
        required
        min={0}
        max={1_000}
        step={1}
        inputMode="numeric"
        value={weight}
        onChange={({ target }) => onChange({ weight: target.value })}
      />
      {onRemove && (
        <IconButton
          icon="close"
          label={`Remove target ${number}`}
          onClick={onRemove}
          className="max-sm:order-first max-sm:justify-self-end sm:mt-6"
        />
      )}
    </li>
  );
}
