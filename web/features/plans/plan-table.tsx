import { Link } from '@tanstack/react-router';
import type { PlanRow } from '#server/contract/accounts.ts';
import { showCount } from '../../lib/show.ts';
import { Button } from '../../ui/button.tsx';
import { Badge, Empty } from '../../ui/parts.tsx';
import { actionsColumn, type Column, Table } from '../../ui/table.tsx';
import { describeTerms } from '../../ui/terms/summary.ts';

/** Null: whoever looks may not. */
type Act = ((plan: PlanRow) => void) | null;

/** Plans that hold first, those that are over last. */
export function PlanTable({
  plans,
  onEdit,
  onRetire,
}: {
  plans: readonly PlanRow[];
  onEdit: Act;
  onRetire: Act;
}) {
  const rows = plans.toSorted(
    (one, other) => Number(one.state === 'retired') - Number(other.state === 'retired'),
  );
  return (
    <Table
      label="Plans"
      rows={rows}
      keyOf={({ name }) => name}
      columns={columns(onEdit, onRetire)}
      empty={
        <Empty icon="tag" title="No plans yet">
          {onEdit
            ? 'Define one and put accounts on it, or let new accounts begin on it. Until then every account may use everything, without a limit.'
            : 'Until an administrator defines one, every account may use everything, without a limit.'}
        </Empty>
      }
    />
  );
}

const columns = (onEdit: Act, onRetire: Act): Column<PlanRow>[] => [
  {
    head: 'Plan',
    cell: ({ name, state, version, terms }) => (
      <>
        <p className="font-medium break-all">{name}</p>
        <p className="flex items-center gap-2 text-xs whitespace-nowrap text-muted">
          version {version} {state === 'retired' && <Badge>retired</Badge>}
        </p>
        <p className="mt-1 md:hidden">{describeTerms(terms, 'plan')}</p>
      </>
    ),
  },
  {
    head: 'Terms',
    cell: ({ terms }) => <p className="max-w-xl">{describeTerms(terms, 'plan')}</p>,
    isExtra: true,
  },
  {
    head: 'Accounts',
    align: 'right',
    cell: ({ name, accounts, state }) =>
      accounts === 0 ? (
        '0'
      ) : (
        <>
          <Link to="/admin/accounts" search={{ plan: name }} className="underline">
            {showCount(accounts)}
          </Link>
          {state === 'retired' && <p className="text-xs text-warn">all refused</p>}
        </>
      ),
  },
  ...(onEdit && onRetire
    ? [
        actionsColumn<PlanRow>(
          (plan) =>
            plan.state === 'active' && (
              <span className="-my-1.5 inline-flex flex-wrap justify-end gap-1">
                <Button look="quiet" onClick={() => onEdit(plan)} aria-label={`Change plan ${plan.name}`}>
                  Change
                </Button>
                <Button look="quiet" onClick={() => onRetire(plan)} aria-label={`Retire plan ${plan.name}`}>
                  Retire
                </Button>
              </span>
            ),
        ),
      ]
    : []),
];
