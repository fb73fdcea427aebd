import { useQuery } from '@tanstack/react-query';
import { useId } from 'react';
import type { Target } from '#db/events/upstream-events.ts';
import type { UpstreamRow } from '#server/contract/upstreams.ts';
import { Button, IconButton } from '../../ui/button.tsx';
import { SelectField, TextField } from '../../ui/field.tsx';
import { ownModelsQuery } from './upstream-queries.ts';

/** A target as it is filled in; `id` tells rows apart. */
export type TypedTarget = { id: number; upstream: string; model: string; weight: string; order: number };

let lastId = 0;

export const newTarget = (
  upstreams: readonly UpstreamRow[],
  order: number,
  taken: readonly string[] = [],
): TypedTarget => {
  // Whatever is not the demo comes first to mind, and what is not there yet.
  const fresh = upstreams.filter(({ name }) => !taken.includes(name));
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

const TURNS = ['First', 'Second', 'Third', 'Fourth', 'Fifth', 'Sixth'];
const TARGETS_MAX = 16;

type TargetRowsProps = {
  model: string;
  targets: readonly TypedTarget[];
  upstreams: readonly UpstreamRow[];
  onChange: (targets: TypedTarget[]) => void;
};

/** Where calls go: upstreams with the turn in which each is tried, and its share of that turn. */
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
            turns={Math.min(TURNS.length, Math.max(last + 1, targets.length))}
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
          Calls of a turn are spread by weight. One of weight 0 is tried only when the others of its turn have
          failed.
        </p>
      )}
      {targets.length < TARGETS_MAX && (
        <div className="mt-2 flex flex-wrap gap-2">
          <Button icon="plus" onClick={() => add(0)}>
            Share with another
          </Button>
          <Button icon="plus" onClick={() => add(Math.min(TURNS.length - 1, last + 1))}>
            Add a fallback
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
  turns: number;
  upstreams: readonly UpstreamRow[];
  onChange: (part: Partial<TypedTarget>) => void;
  onRemove: (() => void) | null;
};

function TargetRow({
  model,
  target: { upstream, model: own, weight, order },
  number,
  turns,
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
      className="grid grid-cols-2 items-start gap-3 rounded-lg border border-line p-3 sm:grid-cols-[1fr_1.2fr_6rem_4.5rem_auto]"
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
        {!isKnown && <option value={upstream}>{upstream} (not there)</option>}
        {upstreams.map(({ name, terms }) => (
          <option key={name} value={name}>
            {name}
            {terms.paused ? ' (paused)' : ''}
          </option>
        ))}
      </SelectField>
      <div>
        <TextField
          label="Its name there"
          maxLength={256}
          list={suggestions.length === 0 ? undefined : id}
          autoComplete="off"
          spellCheck={false}
          className="font-mono"
          placeholder={model === '' ? 'the same' : model}
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
        label="Turn"
        value={String(order)}
        onChange={({ target }) => onChange({ order: Number(target.value) })}
        className="w-full"
      >
        {TURNS.slice(0, Math.max(turns, order + 1)).map((name, turn) => (
          <option key={name} value={turn}>
            {name}
          </option>
        ))}
        {order >= TURNS.length && <option value={order}>{order + 1}.</option>}
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
