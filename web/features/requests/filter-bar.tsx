import { useQuery } from '@tanstack/react-query';
import type { RefObject } from 'react';
import type { FilterSearch } from '../../lib/search/filter.ts';
import { accountsQuery, keysQuery, useIsOverseer } from '../../lib/api/names.ts';
import { FIELD_NAMES } from '../../lib/format/call-fields.ts';
import { OUTCOME_WORDS } from '../../lib/format/outcomes.ts';
import { useFilterNames, usePseudonyms } from '../../ui/attribution/filter.ts';
import { Chips } from '../../ui/form/chips.tsx';
import { Select } from '../../ui/form/field.tsx';
import { FilterLine } from '../../ui/form/filter-line.tsx';
import { MoreFilters } from '../../ui/form/more-filters.tsx';
import { NamedSelect } from '../../ui/form/named-select.tsx';
import { OF_AN_ACCOUNT } from '../../ui/form/subject-filter.tsx';
import { WordOptions } from '../../ui/form/options.tsx';
import { FILTER_NAMES, type FilterName, readFilterText } from './filter-text.ts';

type FilterBarProps = {
  search: FilterSearch;
  /** Undefined clears a field. */
  onChange: (change: Partial<Record<FilterName, string | number | undefined>>) => void;
  input: RefObject<HTMLInputElement | null>;
};

/** Filters as selects or as one typed line. Active filters are shown below as removable chips. */
export function FilterBar({ search, onChange, input }: FilterBarProps) {
  const isOverseer = useIsOverseer();
  const keys = useQuery(keysQuery).data ?? [];
  const accounts = useQuery({ ...accountsQuery, enabled: isOverseer }).data ?? [];
  const lookUp = usePseudonyms();
  const names = useFilterNames(search);
  const read = async (text: string): Promise<string | null> => {
    const { filter, attribution, problem } = readFilterText(text, keys, accounts);
    if (problem !== null) return problem;
    const found = await lookUp({ ...search, ...filter }, attribution);
    if ('problem' in found) return found.problem;
    onChange({ ...filter, ...found.pseudonyms });
    return null;
  };
  const shownKeys =
    search.account === undefined ? keys : keys.filter(({ account }) => account === search.account);
  const nameOf = (all: readonly { id: string; name: string }[], id: string): string =>
    all.find((each) => each.id === id)?.name ?? id;
  const valueOf = (name: FilterName): string => {
    const value = String(search[name] ?? '');
    if (name === 'key') return nameOf(keys, value);
    if (name === 'account') return nameOf(accounts, value);
    if (name === 'end_user' || name === 'session' || name === 'tag') return names(name);
    return name === 'outcome' ? OUTCOME_WORDS[value as keyof typeof OUTCOME_WORDS] : value;
  };
  const chosen = FILTER_NAMES.filter((name) => search[name] !== undefined);

  return (
    <div className="flex min-w-0 flex-col gap-2">
      <FilterLine
        icon="filter"
        label="Filter requests"
        placeholder="Filter: status:4xx model:gpt-4o user:ada@example.com"
        maxLength={400}
        input={input}
        onLine={read}
      >
        <Select
          aria-label="Outcome"
          className="w-36 max-sm:min-w-36 max-sm:flex-1"
          value={search.outcome ?? ''}
          onChange={({ target }) => onChange({ outcome: target.value || undefined })}
        >
          <option value="">All outcomes</option>
          <WordOptions words={OUTCOME_WORDS} />
        </Select>
        {isOverseer && (
          <NamedSelect
            label="Account"
            all="All accounts"
            className="w-40 max-sm:min-w-36 max-sm:flex-1"
            value={search.account}
            rows={accounts}
            onChoose={(account) => onChange({ account, ...OF_AN_ACCOUNT })}
          />
        )}
        <NamedSelect
          label="Key"
          all="All keys"
          className="w-36 max-sm:min-w-36 max-sm:flex-1"
          value={search.key}
          rows={shownKeys}
          onChoose={(key) => onChange({ key })}
        />
        <MoreFilters search={search} onChange={onChange} />
      </FilterLine>
      <Chips
        chips={chosen.map((name) => ({
          name: FIELD_NAMES[name].toLowerCase(),
          value: valueOf(name),
          onRemove: () => onChange({ [name]: undefined }),
        }))}
        onClear={() => onChange(Object.fromEntries(FILTER_NAMES.map((name) => [name, undefined])))}
      />
    </div>
  );
}
