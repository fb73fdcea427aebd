import { useQuery } from '@tanstack/react-query';
import type { FilterSearch } from '../lib/filter-search.ts';
import { accountsQuery, keysQuery, useIsOverseer } from '../lib/names.ts';
import { Select } from './field.tsx';

type SubjectFilterProps = {
  search: FilterSearch;
  /** Names that are offered; an empty one is none. */
  models: readonly string[] | undefined;
  onChange: (part: { account?: string | undefined; key?: string | undefined; model?: string | undefined }) => void;
};

/** Of which account, key and model. */
export function SubjectFilter({ search: { account, key, model }, models = [], onChange }: SubjectFilterProps) {
  const isOverseer = useIsOverseer();
  const accounts = useQuery({ ...accountsQuery, enabled: isOverseer }).data ?? [];
  const keys = (useQuery(keysQuery).data ?? []).filter((each) => account === undefined || each.account === account);
  const names = new Set(models.filter((name) => name !== ''));
  if (model !== undefined) names.add(model);
  return (
    <div className="flex flex-wrap gap-2">
      {isOverseer && (
        <Choice label="Account" all="All accounts" value={account} options={accounts.map(({ id, name }) => [id, name])} onChoose={(id) => onChange({ account: id, key: undefined })} />
      )}
      <Choice label="Key" all="All keys" value={key} options={keys.map(({ id, name }) => [id, name])} onChoose={(id) => onChange({ key: id })} />
      <Choice label="Model" all="All models" value={model} options={[...names].toSorted().map((name) => [name, name])} onChoose={(name) => onChange({ model: name })} />
    </div>
  );
}

type ChoiceProps = { label: string; all: string; value: string | undefined; options: readonly (readonly [value: string, name: string])[]; onChoose: (value: string | undefined) => void };

function Choice({ label, all, value, options, onChoose }: ChoiceProps) {
  return (
    <Select aria-label={label} value={value ?? ''} onChange={({ currentTarget }) => onChoose(currentTarget.value === '' ? undefined : currentTarget.value)} className="flex-1 basis-28 sm:w-40 sm:flex-none">
      <option value="">{all}</option>
      {/* One that is not known (any more) is shown by its id. */}
      {value !== undefined && !options.some(([id]) => id === value) && <option value={value}>{value}</option>}
      {options.map(([id, name]) => (
        <option key={id} value={id}>
          {name}
        </option>
      ))}
    </Select>
  );
}
