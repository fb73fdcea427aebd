import type { KeyRow } from '#server/contract/keys.ts';
import { isActive } from '../../lib/api/names.ts';
import { showShort } from '../../lib/format/show.ts';
import { SumCost } from '../../ui/estimate.tsx';
import { Menu, type MenuItem } from '../../ui/dialog/menu.tsx';
import { actionsColumn, type Column, Table } from '../../ui/layout/table.tsx';
import { Ago } from '../../ui/when.tsx';
import { Expiry, LastUsed, shownSecret, StateBadge, TermsGlance } from './key-marks.tsx';

/** Actions on a key. */
export type KeyAct = 'change' | 'rotate' | 'check' | 'leaked' | 'revoke';

type KeysTableProps = {
  rows: readonly KeyRow[];
  hasAccounts: boolean;
  canChange: boolean;
  onOpen: (id: string) => void;
  onAct: (act: KeyAct, id: string) => void;
};

export function KeysTable({ rows, ...more }: KeysTableProps) {
  return <Table label="API keys" columns={columnsFor(more)} rows={rows} keyOf={({ id }) => id} />;
}

function columnsFor({
  hasAccounts,
  canChange,
  onOpen,
  onAct,
}: Omit<KeysTableProps, 'rows'>): Column<KeyRow>[] {
  const itemsOf = (row: KeyRow): MenuItem[] => {
    const item = (act: KeyAct, label: string, icon: MenuItem['icon'], isDanger = false): MenuItem => ({
      label,
      ...(icon ? { icon } : {}),
      isDanger,
      onChoose: () => onAct(act, row.id),
    });
    return [
      { label: 'Details', icon: 'list', onChoose: () => onOpen(row.id) },
      item('check', 'Test access', 'check'),
      ...(canChange && isActive(row)
        ? [
            item('change', 'Edit', 'cog'),
            ...(row.workload === null
              ? [item('rotate', 'Rotate secret', 'refresh'), item('leaked', 'Report leak', 'warning', true)]
              : []),
            item('revoke', 'Revoke', 'close', true),
          ]
        : []),
    ];
  };
  return [
    { head: 'Name', cell: (row) => <Name row={row} onOpen={() => onOpen(row.id)} /> },
    ...(hasAccounts
      ? [
          {
            head: 'Account',
            isExtra: true,
            cell: (row: KeyRow) => (
              <span className="block max-w-40 truncate" title={row.account_name}>
                {row.account_name}
              </span>
            ),
          },
        ]
      : []),
    { head: 'State', cell: (row) => <State row={row} /> },
    { head: 'Last used', cell: (row) => <LastUsed time={row.last_used_at} /> },
    { head: 'Expires', cell: (row) => <Expiry row={row} /> },
    {
      head: 'This month',
      align: 'right',
      cell: ({ month }) => (
        <span className="whitespace-nowrap">
          <SumCost sum={month} />
          <span className="block text-xs text-muted">
            {showShort(month.requests)} {month.requests === 1 ? 'request' : 'requests'}
          </span>
        </span>
      ),
    },
    { head: 'Restrictions', cell: (row) => <TermsGlance terms={row.terms} />, isExtra: true },
    actionsColumn((row) => (
      <span className="-my-1.5 inline-flex">
        <Menu label={`Actions for ${row.name}`} items={itemsOf(row)} />
      </span>
    )),
  ];
}

function Name({ row, onOpen }: { row: KeyRow; onOpen: () => void }) {
  return (
    <>
      <button
        type="button"
        onClick={onOpen}
        className="block max-w-56 truncate text-left font-medium hover:underline"
        title={row.name}
      >
        {row.name}
      </button>
      <code className="font-mono text-xs whitespace-nowrap text-muted">{shownSecret(row.id, row.last4)}</code>
    </>
  );
}

/** The state; for a rotating key, also the use of the old secret. */
function State({ row: { state, previous_last4, previous_last_used_at, overlap_ends_at } }: { row: KeyRow }) {
  return (
    <>
      <StateBadge state={state} />
      {state === 'rotating' && overlap_ends_at !== null && (
        <span className="mt-1 block text-xs whitespace-nowrap text-muted">
          Old <code className="font-mono">…{previous_last4}</code> last used{' '}
          <LastUsed time={previous_last_used_at} />
          <br />
          expires <Ago time={overlap_ends_at} />
        </span>
      )}
    </>
  );
}
