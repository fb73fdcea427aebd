import type { AccountRow } from '#server/contract/accounts.ts';
import type { AccountSearch } from '../../lib/search/accounts.ts';
import { useDebounced } from '../../lib/hooks/use-debounced.ts';
import { Select } from '../../ui/form/field.tsx';
import { WordOptions } from '../../ui/form/options.tsx';
import { SearchBox } from '../../ui/form/search-box.tsx';

/** Sort orders. */
const ORDERS = {
  name: 'Sort by name',
  newest: 'Sort by newest',
  cost: 'Sort by cost',
  requests: 'Sort by requests',
} as const;
export type Order = keyof typeof ORDERS;

/** The URL value for accounts without a plan. No plan can have this name. */
export const NO_PLAN = 'none';

type AccountFilterProps = {
  accounts: readonly AccountRow[];
  search: AccountSearch;
  onChange: (change: { name?: string; plan?: string | undefined }) => void;
  order: Order;
  onOrder: (order: Order) => void;
};

export function AccountFilter({
  accounts,
  search: { name = '', plan = '' },
  onChange,
  order,
  onOrder,
}: AccountFilterProps) {
  const [text, type] = useDebounced(name, (typed) => onChange({ name: typed }));
  const plans = [
    ...new Set([
      ...accounts.flatMap((each) => each.plan ?? []),
      ...(plan === '' || plan === NO_PLAN ? [] : [plan]),
    ]),
  ].toSorted();
  return (
    <div className="flex flex-wrap items-center gap-2 border-b border-line px-4 py-2.5">
      <SearchBox label="Search by name or ID" value={text} onChange={type} />
      <Select aria-label="Plan" value={plan} onChange={({ target }) => onChange({ plan: target.value })}>
        <option value="">All plans</option>
        <option value={NO_PLAN}>No plan</option>
        {plans.map((each) => (
          <option key={each} value={each}>
            {each}
          </option>
        ))}
      </Select>
      <Select aria-label="Sort order" value={order} onChange={({ target }) => onOrder(target.value as Order)}>
        <WordOptions words={ORDERS} />
      </Select>
    </div>
  );
}
