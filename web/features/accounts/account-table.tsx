import type { AccountRow } from '#server/contract/accounts.ts';
import type { AccountSearch } from '../../lib/account-search.ts';
import { showCost, showCount, showCounted, showShort } from '../../lib/show.ts';
import { Button } from '../../ui/button.tsx';
import { Badge, Empty } from '../../ui/parts.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { When } from '../../ui/when.tsx';
import { NO_PLAN, type Order } from './account-filter.tsx';

/** More is not read, but searched. */
const SHOWN_MAX = 200;
/** What was appended in the moment of asking is no delay. */
const BEHIND_TOLD_MIN = 100;

type AccountTableProps = {
  accounts: readonly AccountRow[];
  search: AccountSearch;
  order: Order;
  onOpen: (account: string) => void;
  onClear: () => void;
  /** Left out by the server, because they are too many for a list. */
  omitted: number;
  /** Events that the month's figures lack. */
  behind: number;
};

export function AccountTable({
  accounts,
  search,
  order,
  onOpen,
  onClear,
  omitted,
  behind,
}: AccountTableProps) {
  const found = accounts.filter((account) => fits(account, search)).toSorted(ORDERED[order]);
  const hidden = Math.max(0, found.length - SHOWN_MAX);
  return (
    <>
      <Table
        label="Accounts"
        rows={found.slice(0, SHOWN_MAX)}
        keyOf={({ id }) => id}
        columns={columns(onOpen)}
        empty={
          <Empty icon="filter" title="No account fits">
            <Button className="mt-2" onClick={onClear}>
              Show all
            </Button>
          </Empty>
        }
      />
      <p className="border-t border-line px-4 py-2.5 text-xs text-muted">
        {showCounted(found.length, 'account')}
        {hidden > 0 && `, ${showCount(hidden)} of them not shown: search for a name`}
        {omitted > 0 && `; ${showCount(omitted)} older ones are only found by search`}
        {behind >= BEHIND_TOLD_MIN && `; figures are ${showCount(behind)} events behind`}
      </p>
    </>
  );
}

function fits({ id, name, plan }: AccountRow, search: AccountSearch): boolean {
  const text = (search.name ?? '').trim().toLowerCase();
  const isOnPlan = search.plan === undefined || plan === (search.plan === NO_PLAN ? null : search.plan);
  return isOnPlan && (name.toLowerCase().includes(text) || id.toLowerCase().includes(text));
}

const ORDERED: Record<Order, (one: AccountRow, other: AccountRow) => number> = {
  name: (one, other) => one.name.localeCompare(other.name, 'en'),
  newest: (one, other) => Date.parse(other.created_at) - Date.parse(one.created_at),
  spend: (one, other) => other.month.cost_microusd - one.month.cost_microusd,
  requests: (one, other) => other.month.requests - one.month.requests,
};

const columns = (onOpen: (account: string) => void): Column<AccountRow>[] => [
  {
    head: 'Account',
    cell: ({ id, name, state, plan }) => (
      <span className="flex flex-wrap items-center gap-x-2">
        <button
          type="button"
          onClick={() => onOpen(id)}
          className="text-left font-medium break-words underline decoration-line-strong underline-offset-2 hover:decoration-current"
        >
          {name}
        </button>
        {state === 'suspended' && <Badge tone="bad">suspended</Badge>}
        <span className="w-full text-xs text-muted md:hidden">
          {plan === null ? 'on no plan' : `on ${plan}`}
        </span>
      </span>
    ),
  },
  {
    head: 'Plan',
    cell: ({ plan, override }) => (
      <span className="flex flex-wrap items-center gap-2">
        {plan ?? <span className="text-muted">none</span>}
        {override !== null && <Badge>own terms</Badge>}
      </span>
    ),
    isExtra: true,
  },
  { head: 'Members', align: 'right', cell: ({ members }) => showCount(members), isExtra: true },
  { head: 'Keys', align: 'right', cell: ({ keys }) => showCount(keys), isExtra: true },
  { head: 'Requests', align: 'right', cell: ({ month }) => showShort(month.requests) },
  { head: 'Tokens', align: 'right', cell: ({ month }) => showShort(month.tokens), isExtra: true },
  { head: 'Spend', align: 'right', cell: ({ month }) => showCost(month.cost_microusd) },
  { head: 'Registered', cell: ({ created_at: at }) => <When time={at} form="date" />, isExtra: true },
];
