import { useQuery } from '@tanstack/react-query';
import type { RefObject } from 'react';
import type { EventSearch } from '../../lib/search/events.ts';
import { membersQuery } from '../../lib/api/queries.ts';
import { accountsQuery, keysQuery, useIsOverseer } from '../../lib/api/names.ts';
import { showCount } from '../../lib/format/show.ts';
import { Chips } from '../../ui/form/chips.tsx';
import { Select } from '../../ui/form/field.tsx';
import { FilterLine } from '../../ui/form/filter-line.tsx';
import { NamedSelect } from '../../ui/form/named-select.tsx';
import { TimeRange } from '../../ui/form/time-range.tsx';
import { EVENT_GROUPS, type Names } from './event-words.ts';

type EventFilterProps = {
  search: EventSearch;
  names: Names;
  /** Undefined clears a field. */
  onChange: (change: Partial<Record<keyof EventSearch, string | number | undefined>>) => void;
  input: RefObject<HTMLInputElement | null>;
};

const CHIPS: readonly (keyof EventSearch)[] = ['type', 'account', 'key', 'member', 'request', 'at'];
const CLEARED = {
  type: undefined,
  account: undefined,
  key: undefined,
  member: undefined,
  request: undefined,
  at: undefined,
  from: undefined,
  to: undefined,
};
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Filters of the event list. */
export function EventFilter({ search, names, onChange, input }: EventFilterProps) {
  const isOverseer = useIsOverseer();
  const keys = useQuery(keysQuery).data ?? [];
  const accounts = useQuery({ ...accountsQuery, enabled: isOverseer }).data ?? [];
  const members = useQuery(membersQuery).data?.data ?? [];
  const read = (typed: string): string | null => {
    const text = typed.trim().replaceAll(/(?<=\d)[,\s](?=\d)/g, '');
    const isPosition = /^[1-9]\d{0,14}$/.test(text);
    if (!isPosition && !UUID.test(text)) return 'Enter a request ID or a position, which is a whole number.';
    onChange(isPosition ? { at: Number(text) } : { request: text.toLowerCase() });
    return null;
  };
  const ofAccount = <Row extends { account: string }>(rows: readonly Row[]): Row[] =>
    rows.filter(({ account }) => search.account === undefined || account === search.account);
  const valueOf = (name: keyof EventSearch): string => {
    const value = search[name];
    if (name === 'at') return `up to ${showCount(Number(value))}`;
    if (name === 'key' || name === 'account' || name === 'member') return names[name](String(value));
    return String(value);
  };
  const chips = CHIPS.filter((name) => search[name] !== undefined).map((name) => ({
    name: name === 'at' ? 'position' : name,
    value: valueOf(name),
    onRemove: () => onChange({ [name]: undefined }),
  }));
  if (search.from !== undefined || search.to !== undefined)
    chips.push({
      name: 'time',
      value: 'custom range',
      onRemove: () => onChange({ from: undefined, to: undefined }),
    });

  return (
    <div className="mb-3 flex min-w-0 flex-col gap-2">
      <FilterLine
        icon="search"
        label="Request ID or position"
        placeholder="Request ID or position"
        maxLength={60}
        input={input}
        onLine={read}
      >
        <Select
          aria-label="Event type"
          className="w-44 max-sm:min-w-36 max-sm:flex-1"
          value={search.type ?? ''}
          onChange={({ target }) => onChange({ type: target.value || undefined })}
        >
          <option value="">All event types</option>
          {EVENT_GROUPS.map(({ group, name, types }) => (
            <optgroup key={group} label={name}>
              <option value={group}>All {name.toLowerCase()} events</option>
              {types.map((type) => (
                <option key={type} value={type}>
                  {type}
                </option>
              ))}
            </optgroup>
          ))}
        </Select>
        {isOverseer && (
          <NamedSelect
            label="Account"
            all="All accounts"
            className="w-40 max-sm:min-w-36 max-sm:flex-1"
            value={search.account}
            rows={accounts}
            onChoose={(account) => onChange({ account, key: undefined, member: undefined })}
          />
        )}
        <NamedSelect
          label="Key"
          all="All keys"
          className="w-36 max-sm:min-w-36 max-sm:flex-1"
          value={search.key}
          rows={ofAccount(keys)}
          onChoose={(key) => onChange({ key })}
        />
        <NamedSelect
          label="Member"
          all="All members"
          className="w-40 max-sm:min-w-36 max-sm:flex-1"
          value={search.member}
          rows={ofAccount(members).map(({ id, email }) => ({ id, name: email ?? id }))}
          onChoose={(member) => onChange({ member })}
        />
        <TimeRange
          search={search}
          fallback="24h"
          ranges={[]}
          onChange={({ from, to }) => onChange({ from, to })}
        />
      </FilterLine>
      <Chips chips={chips} onClear={() => onChange(CLEARED)} />
    </div>
  );
}
