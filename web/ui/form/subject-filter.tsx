import type { ReactNode } from 'react';
import { useQuery } from '@tanstack/react-query';
import type { FilterSearch } from '../../lib/search/filter.ts';
import { accountsQuery, keysQuery, useIsOverseer } from '../../lib/api/names.ts';
import { NamedSelect } from './named-select.tsx';

type SubjectFilterProps = {
  search: FilterSearch;
  /** Model names to offer. Empty names are ignored. */
  models: readonly string[] | undefined;
  onChange: (part: {
    account?: string | undefined;
    key?: string | undefined;
    model?: string | undefined;
    end_user?: undefined;
    session?: undefined;
    tag?: undefined;
  }) => void;
  /** Further filters. */
  children?: ReactNode;
};

/** Keys and pseudonyms are of one account. */
export const OF_AN_ACCOUNT = { key: undefined, end_user: undefined, session: undefined, tag: undefined };

const LOOK = 'flex-1 basis-32 sm:w-40 sm:flex-none';

/** Filters by account, key and model. */
export function SubjectFilter({
  search: { account, key, model },
  models = [],
  onChange,
  children,
}: SubjectFilterProps) {
  const isOverseer = useIsOverseer();
  const accounts = useQuery({ ...accountsQuery, enabled: isOverseer }).data ?? [];
  const keys = (useQuery(keysQuery).data ?? []).filter(
    (each) => account === undefined || each.account === account,
  );
  const names = new Set(models.filter((name) => name !== ''));
  return (
    <div className="flex flex-wrap gap-2 max-sm:w-full">
      {isOverseer && (
        <NamedSelect
          label="Account"
          all="All accounts"
          className={LOOK}
          value={account}
          rows={accounts}
          onChoose={(id) => onChange({ account: id, ...OF_AN_ACCOUNT })}
        />
      )}
      <NamedSelect
        label="Key"
        all="All keys"
        className={LOOK}
        value={key}
        rows={keys}
        onChoose={(id) => onChange({ key: id })}
      />
      <NamedSelect
        label="Model"
        all="All models"
        className={LOOK}
        value={model}
        rows={[...names].toSorted().map((name) => ({ id: name, name }))}
        onChoose={(name) => onChange({ model: name })}
      />
      {children}
    </div>
  );
}
