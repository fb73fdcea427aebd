import { useRef } from 'react';
import type { KeyRow } from '#server/contract/keys.ts';
import { KEY_STATES, type KeySearch, type KeySearchChange } from '../../lib/search/keys.ts';
import { useShortcuts } from '../../lib/hooks/use-shortcuts.ts';
import { useDebounced } from '../../lib/hooks/use-debounced.ts';
import { Select } from '../../ui/form/field.tsx';
import { NamedSelect } from '../../ui/form/named-select.tsx';
import { WordOptions } from '../../ui/form/options.tsx';
import { SearchBox } from '../../ui/form/search-box.tsx';

const STATE_NAMES: Record<(typeof KEY_STATES)[number], string> = {
  active: 'Active',
  rotating: 'Rotating',
  expired: 'Expired',
  revoked: 'Revoked',
  all: 'All',
};

type KeysFilterProps = {
  rows: readonly KeyRow[];
  search: KeySearch;
  onChange: (change: KeySearchChange) => void;
  hasAccounts: boolean;
};

export function KeysFilter({ rows, search, onChange, hasAccounts }: KeysFilterProps) {
  const name = useRef<HTMLInputElement>(null);
  const [text, type] = useDebounced(search.name ?? '', (typed) => onChange({ name: typed }));
  useShortcuts({ '/': () => name.current?.focus() });
  const accounts = new Map(rows.map(({ account, account_name }) => [account, account_name]));
  return (
    <>
      <SearchBox input={name} label="Search by name or ID" value={text} onChange={type} />
      {hasAccounts && accounts.size > 1 && (
        <NamedSelect
          label="Account"
          all="All accounts"
          className="max-w-44"
          value={search.account}
          rows={[...accounts].map(([id, called]) => ({ id, name: called }))}
          onChoose={(account) => onChange({ account })}
        />
      )}
      <Select
        aria-label="State"
        value={search.state ?? ''}
        onChange={({ target }) => onChange({ state: KEY_STATES.find((state) => state === target.value) })}
      >
        <option value="">Active and rotating</option>
        <WordOptions words={STATE_NAMES} />
      </Select>
    </>
  );
}
