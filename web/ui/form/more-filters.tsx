import { type FormEvent, useId, useRef, useState } from 'react';
import type { AttributionKind } from '#server/contract/attribution.ts';
import { STATUS_CLASSES } from '#db/fold/call-filter.ts';
import { type FilterSearch, readFilterSearch, ROUTES } from '../../lib/search/filter.ts';
import { useFilterNames, usePseudonyms } from '../attribution/filter.ts';
import { Button } from '../button.tsx';
import { Icon } from '../icon.tsx';
import { SelectField, TextField } from './field.tsx';
import { NamedOptions } from './options.tsx';
import { Segment } from './segments.tsx';

/** The filters that have no control of their own on the page. */
export const MORE_FILTERS = [
  'route',
  'upstream',
  'status',
  'end_user',
  'session',
  'tag',
  'error_code',
] as const;
export type MoreFilter = (typeof MORE_FILTERS)[number];

type MoreFiltersProps = {
  search: FilterSearch;
  /** Those to offer. */
  fields?: readonly MoreFilter[];
  /** Undefined clears a field. */
  onChange: (change: Partial<Record<MoreFilter, string | number | undefined>>) => void;
};

const ATTRIBUTED = { end_user: 'End user', session: 'Session', tag: 'Tag' } as const;
const KINDS = ['end_user', 'session', 'tag'] as const;
const VALUE = { maxLength: 256, placeholder: 'As sent, or its pseudonym', className: 'min-w-0' };
const rowsOf = (values: readonly string[]) => values.map((id) => ({ id, name: id }));

/** A form with the rarer filters, behind a button that counts the active ones. */
export function MoreFilters({ search, fields = MORE_FILTERS, onChange }: MoreFiltersProps) {
  const id = useId();
  const form = useRef<HTMLFormElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const active = fields.filter((name) => search[name] !== undefined).length;
  const place = (): void => {
    const from = button.current?.getBoundingClientRect();
    const element = form.current;
    if (!from || !element) return;
    const [topMax, leftMax] = [
      window.innerHeight - element.offsetHeight - 8,
      window.innerWidth - element.offsetWidth - 8,
    ];
    element.style.top = `${Math.max(8, Math.min(from.bottom + 4, topMax))}px`;
    element.style.left = `${Math.max(8, Math.min(from.right - element.offsetWidth, leftMax))}px`;
  };
  const [problem, setProblem] = useState<string | null>(null);
  const lookUp = usePseudonyms();
  const names = useFilterNames(search);
  const shown = (kind: AttributionKind): string => (search[kind] === undefined ? '' : names(kind));
  const submit = async (event: FormEvent<HTMLFormElement>): Promise<void> => {
    event.preventDefault();
    const element = event.currentTarget;
    const given = Object.fromEntries(
      [...new FormData(element)].map(([name, text]) => [name, typeof text === 'string' ? text.trim() : '']),
    );
    const typed = KINDS.filter((kind) => given[kind] !== shown(kind));
    const found = await lookUp(search, Object.fromEntries(typed.map((kind) => [kind, given[kind] ?? ''])));
    setProblem('problem' in found ? found.problem : null);
    if ('problem' in found) return;
    const kept = KINDS.filter((kind) => !typed.includes(kind)).map((kind) => [kind, search[kind]]);
    const read = readFilterSearch({
      ...given,
      end_user: undefined,
      session: undefined,
      tag: undefined,
      ...Object.fromEntries(kept),
      ...found.pseudonyms,
    });
    element.hidePopover();
    onChange(Object.fromEntries(MORE_FILTERS.map((name) => [name, read[name]])));
  };
  const value = (name: MoreFilter): string => String(search[name] ?? '');
  const text = (name: MoreFilter, label: string) => ({
    name,
    label,
    defaultValue: value(name),
    autoComplete: 'off',
    spellCheck: false,
  });
  return (
    <>
      <Segment ref={button} popoverTarget={id} aria-pressed={active > 0}>
        <Icon name="filter" />
        More{active > 0 ? ` (${active})` : ''}
      </Segment>
      {/* A new key resets the fields. */}
      <form
        key={[...MORE_FILTERS.map(value), ...KINDS.map(shown)].join(' ')}
        ref={form}
        id={id}
        popover="auto"
        aria-label="More filters"
        onSubmit={(event) => void submit(event)}
        onToggle={(event) => event.newState === 'open' && place()}
        className="fixed m-0 w-80 rounded-lg border border-line bg-surface p-4 text-ink shadow-lg"
      >
        <div className="flex flex-col gap-3">
          {fields.includes('route') && (
            <SelectField name="route" label="Route" defaultValue={value('route')}>
              <option value="">All routes</option>
              <NamedOptions rows={rowsOf(ROUTES)} />
            </SelectField>
          )}
          <div className="grid auto-cols-fr grid-flow-col gap-3">
            <TextField {...text('upstream', 'Upstream')} pattern="[a-z0-9][a-z0-9._\-]*" maxLength={64} />
            {fields.includes('status') && (
              <TextField {...text('status', 'Status')} list={`${id}-status`} pattern="[1-5](\d\d|xx)" />
            )}
          </div>
          <datalist id={`${id}-status`}>
            <NamedOptions rows={rowsOf(STATUS_CLASSES)} />
          </datalist>
          {KINDS.map((kind) => (
            <TextField key={kind} {...text(kind, ATTRIBUTED[kind])} {...VALUE} defaultValue={shown(kind)} />
          ))}
          {fields.includes('error_code') && (
            <TextField {...text('error_code', 'Error code')} pattern="[a-z_]+" maxLength={64} />
          )}
          {problem !== null && (
            <p role="alert" className="text-xs text-danger">
              {problem}
            </p>
          )}
          <Button type="submit" look="primary">
            Apply
          </Button>
        </div>
      </form>
    </>
  );
}
