import { Link } from '@tanstack/react-router';
import type { PlanRow } from '#server/contract/accounts.ts';
import { showCount } from '../../lib/format/show.ts';
import { Button } from '../../ui/button.tsx';
import { Badge, Empty } from '../../ui/layout/parts.tsx';
import { actionsColumn, type Column, Table } from '../../ui/layout/table.tsx';
import { describeTerms } from '../../ui/terms/summary.ts';

/** Null without permission. */
type Act = ((plan: PlanRow) => void) | null;

/** Active plans first, retired plans last. */
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
            ? 'Create a plan to limit models, rates and quotas. Without a plan accounts are unlimited.'
            : 'Without a plan accounts are unlimited. An administrator can create one.'}
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
          Version {version} {state === 'retired' && <Badge>Retired</Badge>}
        </p>
        <p className="mt-1 md:hidden">{describeTerms(terms, 'plan')}</p>
      </>
    ),
  },
  {
    head: 'Limits',
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
          {state === 'retired' && <p className="text-xs text-warn">Requests rejected</p>}
        </>
      ),
  },
  ...(onEdit && onRetire
    ? [
        actionsColumn<PlanRow>(
          (plan) =>
            plan.state === 'active' && (
              <span className="-my-1.5 inline-flex flex-wrap justify-end gap-1">
                <Button look="quiet" onClick={() => onEdit(plan)} aria-label={`Edit plan ${plan.name}`}>
                  Edit
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
