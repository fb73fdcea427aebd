import { useQuery } from '@tanstack/react-query';
import { type FormEvent, type RefObject, useState } from 'react';
import type { FilterSearch } from '../../lib/filter-search.ts';
import { accountsQuery, keysQuery, useIsOverseer } from '../../lib/names.ts';
import { OUTCOME_WORDS } from '../../lib/outcome-words.ts';
import { Chips, NamedOptions } from '../../ui/chips.tsx';
import { Icon } from '../../ui/icon.tsx';
import { Select } from '../../ui/field.tsx';
import { FILTER_NAMES, type FilterName, readFilterText } from './filter-text.ts';

type FilterBarProps = {
  search: FilterSearch;
  /** Undefined takes one away. */
  onChange: (change: Partial<Record<FilterName, string | number | undefined>>) => void;
  input: RefObject<HTMLInputElement | null>;
};

/** Which requests are meant: by lists to choose from, or typed as one line. What is chosen stands beneath, to be taken away. */
export function FilterBar({ search, onChange, input }: FilterBarProps) {
  const isOverseer = useIsOverseer();
  const keys = useQuery(keysQuery).data ?? [];
  const accounts = useQuery({ ...accountsQuery, enabled: isOverseer }).data ?? [];
  const [problem, setProblem] = useState<string | null>(null);
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    const text = new FormData(form).get('filter');
    const read = readFilterText(typeof text === 'string' ? text : '', keys, accounts);
    setProblem(read.problem);
    if (read.problem !== null) return;
    form.reset();
    onChange(read.filter);
  };
  const shownKeys = search.account === undefined ? keys : keys.filter(({ account }) => account === search.account);
  const nameOf = (all: readonly { id: string; name: string }[], id: string): string => all.find((each) => each.id === id)?.name ?? id;
  const valueOf = (name: FilterName): string => {
    const value = String(search[name] ?? '');
    if (name === 'key') return nameOf(keys, value);
    if (name === 'account') return nameOf(accounts, value);
    return name === 'outcome' ? OUTCOME_WORDS[value as keyof typeof OUTCOME_WORDS] : value;
  };
  const chosen = FILTER_NAMES.filter((name) => search[name] !== undefined);

  return (
    <div className="flex min-w-0 flex-col gap-2">
      <div className="flex flex-wrap items-center gap-2">
        <form onSubmit={submit} className="relative min-w-52 flex-1 max-sm:basis-full">
          <Icon name="filter" className="pointer-events-none absolute top-1/2 left-2.5 -translate-y-1/2 text-muted" />
          <input
            ref={input}
            name="filter"
            type="search"
            enterKeyHint="search"
            autoComplete="off"
            spellCheck={false}
            maxLength={400}
            aria-label="Filter, such as status:429 key:ci"
            aria-invalid={problem !== null || undefined}
            aria-describedby={problem === null ? undefined : 'filter-problem'}
            placeholder="status:429 key:ci model:…"
            onKeyDown={(event) => event.key === 'Escape' && event.currentTarget.blur()}
            className="w-full rounded-md border border-line-strong bg-surface py-1.5 pr-2.5 pl-8 placeholder:text-muted aria-invalid:border-bad"
          />
        </form>
        <Select aria-label="Outcome" className="w-36 max-sm:min-w-28 max-sm:flex-1" value={search.outcome ?? ''} onChange={({ target }) => onChange({ outcome: target.value || undefined })}>
          <option value="">Any outcome</option>
          {Object.entries(OUTCOME_WORDS).map(([outcome, words]) => (
            <option key={outcome} value={outcome}>
              {words}
            </option>
          ))}
        </Select>
        {isOverseer && (
          <Select aria-label="Account" className="w-40 max-sm:min-w-28 max-sm:flex-1" value={search.account ?? ''} onChange={({ target }) => onChange({ account: target.value || undefined, key: undefined })}>
            <option value="">All accounts</option>
            <NamedOptions rows={accounts} chosen={search.account} />
          </Select>
        )}
        <Select aria-label="Key" className="w-36 max-sm:min-w-28 max-sm:flex-1" value={search.key ?? ''} onChange={({ target }) => onChange({ key: target.value || undefined })}>
          <option value="">All keys</option>
          <NamedOptions rows={shownKeys} chosen={search.key} />
        </Select>
      </div>
      {problem !== null && (
        <p id="filter-problem" role="alert" className="text-xs text-bad">
          {problem}
        </p>
      )}
      <Chips chips={chosen.map((name) => ({ name, value: valueOf(name), onRemove: () => onChange({ [name]: undefined }) }))} onClear={() => onChange(Object.fromEntries(FILTER_NAMES.map((name) => [name, undefined])))} />
    </div>
  );
}
