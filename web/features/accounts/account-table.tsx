import type { AccountRow } from '#server/contract/accounts.ts';
import type { AccountSearch } from '../../lib/search/accounts.ts';
import { showCount, showCounted, showShort } from '../../lib/format/show.ts';
import { SumCost } from '../../ui/estimate.tsx';
import { Button } from '../../ui/button.tsx';
import { Badge, Empty } from '../../ui/layout/parts.tsx';
import { type Column, Table } from '../../ui/layout/table.tsx';
import { When } from '../../ui/when.tsx';
import { NO_PLAN, type Order } from './account-filter.tsx';

/** Longer lists are searched instead of scrolled. */
const SHOWN_MAX = 200;
/** A smaller lag is normal and not shown. */
const BEHIND_SHOWN_MIN = 100;

type AccountTableProps = {
  accounts: readonly AccountRow[];
  search: AccountSearch;
  order: Order;
  onOpen: (account: string) => void;
  onClear: () => void;
  /** Accounts beyond the server's list bound. */
  omitted: number;
  /** Events not yet included in this month's figures. */
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
          <Empty icon="filter" title="No matching accounts">
            <Button className="mt-2" onClick={onClear}>
              Clear filters
            </Button>
          </Empty>
        }
      />
      <p className="border-t border-line px-4 py-2.5 text-xs text-muted">
        {showCounted(found.length, 'account')}
        {hidden > 0 && `, ${showCount(hidden)} not shown. Search to find them.`}
        {omitted > 0 && ` · ${showCount(omitted)} older accounts are available through search`}
        {behind >= BEHIND_SHOWN_MIN && ` · Figures are ${showCount(behind)} events behind`}
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
  cost: (one, other) => Number(BigInt(other.month.cost_nanousd) - BigInt(one.month.cost_nanousd)),
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
          className={[
            'text-left font-medium break-words underline decoration-line-strong',
            'underline-offset-2 hover:decoration-current',
          ].join(' ')}
        >
          {name}
        </button>
        {state === 'suspended' && <Badge tone="danger">Suspended</Badge>}
        <span className="w-full text-xs text-muted md:hidden">{plan === null ? 'No plan' : plan}</span>
      </span>
    ),
  },
  {
    head: 'Plan',
    cell: ({ plan, override }) => (
      <span className="flex flex-wrap items-center gap-2">
        {plan ?? <span className="text-muted">No plan</span>}
        {override !== null && <Badge>Override</Badge>}
      </span>
    ),
    isExtra: true,
  },
  { head: 'Members', align: 'right', cell: ({ members }) => showCount(members), isExtra: true },
  { head: 'Active keys', align: 'right', cell: ({ keys }) => showCount(keys), isExtra: true },
  { head: 'Requests', align: 'right', cell: ({ month }) => showShort(month.requests) },
  { head: 'Tokens', align: 'right', cell: ({ month }) => showShort(month.tokens), isExtra: true },
  { head: 'Cost', align: 'right', cell: ({ month }) => <SumCost sum={month} /> },
  { head: 'Created', cell: ({ created_at: at }) => <When time={at} form="date" />, isExtra: true },
];
