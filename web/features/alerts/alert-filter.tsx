import { useQuery } from '@tanstack/react-query';
import { ALERT_FILTER_FIELDS, type AlertFilter } from '#db/alerts/alerts.ts';
import { useAccountNames, useKeyNames } from '../../lib/api/names.ts';
import { modelsQuery } from '../../lib/api/queries.ts';
import { FIELD_NAMES } from '../../lib/format/call-fields.ts';
import { useSearchChange } from '../../lib/hooks/use-search-change.ts';
import { Chips } from '../../ui/form/chips.tsx';
import { MORE_FILTERS, MoreFilters } from '../../ui/form/more-filters.tsx';
import { SubjectFilter } from '../../ui/form/subject-filter.tsx';

const MORE = MORE_FILTERS.filter((field) => (ALERT_FILTER_FIELDS as readonly string[]).includes(field));

/** Filters of alerts, the same as of requests as far as alerts have their fields. */
export function AlertFilterBar({ filter }: { filter: AlertFilter }) {
  const change = useSearchChange({ replace: true });
  const models = useQuery(modelsQuery).data?.map(({ id }) => id);
  return (
    <SubjectFilter search={filter} models={models} onChange={change}>
      <MoreFilters search={filter} fields={MORE} onChange={change} />
    </SubjectFilter>
  );
}

export function AlertChips({ filter }: { filter: AlertFilter }) {
  const change = useSearchChange({ replace: true });
  const [accountNameOf, keyNameOf] = [useAccountNames(), useKeyNames()];
  const active = ALERT_FILTER_FIELDS.filter((field) => filter[field] !== undefined);
  const valueOf = (field: (typeof active)[number]): string => {
    const value = filter[field] ?? '';
    return field === 'account' ? accountNameOf(value) : field === 'key' ? keyNameOf(value) : value;
  };
  return (
    <div className="border-b border-line px-4 py-2 empty:hidden">
      <Chips
        chips={active.map((field) => ({
          name: FIELD_NAMES[field].toLowerCase(),
          value: valueOf(field),
          onRemove: () => change({ [field]: undefined }),
        }))}
        onClear={() => change(Object.fromEntries(active.map((field) => [field, undefined])))}
      />
    </div>
  );
}
