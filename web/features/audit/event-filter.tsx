import { useQuery } from '@tanstack/react-query';
import { type FormEvent, type RefObject, useState } from 'react';
import type { EventSearch } from '../../lib/event-search.ts';
import { membersQuery } from '../../lib/members-query.ts';
import { accountsQuery, keysQuery, useIsOverseer } from '../../lib/names.ts';
import { showCount } from '../../lib/show.ts';
import { Chips, NamedOptions } from '../../ui/chips.tsx';
import { Select } from '../../ui/field.tsx';
import { Icon } from '../../ui/icon.tsx';
import { TimeRange } from '../../ui/time-range.tsx';
import { EVENT_GROUPS, type Names } from './event-words.ts';

type EventFilterProps = {
  search: EventSearch;
  names: Names;
  /** Undefined takes one away. */
  onChange: (change: Partial<Record<keyof EventSearch, string | number | undefined>>) => void;
  input: RefObject<HTMLInputElement | null>;
};

const CHIPS: readonly (keyof EventSearch)[] = ['type', 'account', 'key', 'member', 'request', 'at'];
const CLEARED = { type: undefined, account: undefined, key: undefined, member: undefined, request: undefined, at: undefined, from: undefined, to: undefined };
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Which events are meant. */
export function EventFilter({ search, names, onChange, input }: EventFilterProps) {
  const isOverseer = useIsOverseer();
  const keys = useQuery(keysQuery).data ?? [];
  const accounts = useQuery({ ...accountsQuery, enabled: isOverseer }).data ?? [];
  const members = useQuery(membersQuery).data?.data ?? [];
  const [problem, setProblem] = useState<string | null>(null);
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    const field = new FormData(form).get('place');
    const text = typeof field === 'string' ? field.trim().replaceAll(/(?<=\d)[,\s](?=\d)/g, '') : '';
    const isPosition = /^[1-9]\d{0,14}$/.test(text);
    const isRight = isPosition || UUID.test(text);
    setProblem(isRight ? null : 'This is neither the id of a request nor a position, which is a whole number.');
    if (!isRight) return;
    form.reset();
    onChange(isPosition ? { at: Number(text) } : { request: text.toLowerCase() });
  };
  const ofAccount = <Row extends { account: string }>(rows: readonly Row[]): Row[] => rows.filter(({ account }) => search.account === undefined || account === search.account);
  const valueOf = (name: keyof EventSearch): string => {
    const value = search[name];
    if (name === 'at') return `from ${showCount(Number(value))} down`;
    if (name === 'key' || name === 'account' || name === 'member') return names[name](String(value));
    return String(value);
  };
  const chips = CHIPS.filter((name) => search[name] !== undefined).map((name) => ({ name: name === 'at' ? 'position' : name, value: valueOf(name), onRemove: () => onChange({ [name]: undefined }) }));
  if (search.from !== undefined || search.to !== undefined) chips.push({ name: 'time', value: 'as chosen', onRemove: () => onChange({ from: undefined, to: undefined }) });

  return (
    <div className="mb-3 flex min-w-0 flex-col gap-2">
      <div className="flex flex-wrap items-center gap-2">
        <form onSubmit={submit} className="relative min-w-52 flex-1 max-sm:basis-full">
          <Icon name="search" className="pointer-events-none absolute top-1/2 left-2.5 -translate-y-1/2 text-muted" />
          <input
            ref={input}
            name="place"
            type="search"
            enterKeyHint="search"
            autoComplete="off"
            spellCheck={false}
            maxLength={60}
            aria-label="Id of a request, or a position"
            aria-invalid={problem !== null || undefined}
            aria-describedby={problem === null ? undefined : 'place-problem'}
            placeholder="Id of a request, or a position"
            onKeyDown={(event) => event.key === 'Escape' && event.currentTarget.blur()}
            className="w-full rounded-md border border-line-strong bg-surface py-1.5 pr-2.5 pl-8 placeholder:text-muted aria-invalid:border-bad"
          />
        </form>
        <Select aria-label="Type" className="w-44 max-sm:min-w-36 max-sm:flex-1" value={search.type ?? ''} onChange={({ target }) => onChange({ type: target.value || undefined })}>
          <option value="">All types</option>
          {EVENT_GROUPS.map(({ group, name, types }) => (
            <optgroup key={group} label={name}>
              <option value={group}>All: {name.toLowerCase()}</option>
              {types.map((type) => (
                <option key={type} value={type}>
                  {type}
                </option>
              ))}
            </optgroup>
          ))}
        </Select>
        {isOverseer && (
          <Select aria-label="Account" className="w-40 max-sm:min-w-36 max-sm:flex-1" value={search.account ?? ''} onChange={({ target }) => onChange({ account: target.value || undefined, key: undefined, member: undefined })}>
            <option value="">All accounts</option>
            <NamedOptions rows={accounts} chosen={search.account} />
          </Select>
        )}
        <Select aria-label="Key" className="w-36 max-sm:min-w-36 max-sm:flex-1" value={search.key ?? ''} onChange={({ target }) => onChange({ key: target.value || undefined })}>
          <option value="">All keys</option>
          <NamedOptions rows={ofAccount(keys)} chosen={search.key} />
        </Select>
        <Select aria-label="Member" className="w-40 max-sm:min-w-36 max-sm:flex-1" value={search.member ?? ''} onChange={({ target }) => onChange({ member: target.value || undefined })}>
          <option value="">All members</option>
          <NamedOptions rows={ofAccount(members).map(({ id, email }) => ({ id, name: email ?? id }))} chosen={search.member} />
        </Select>
        <TimeRange search={search} fallback="24h" ranges={[]} onChange={({ from, to }) => onChange({ from, to })} />
      </div>
      {problem !== null && (
        <p id="place-problem" role="alert" className="text-xs text-bad">
          {problem}
        </p>
      )}
      <Chips chips={chips} onClear={() => onChange(CLEARED)} />
    </div>
  );
}
