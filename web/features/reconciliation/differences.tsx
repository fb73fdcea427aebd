import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { Suspense, useState } from 'react';
import type { ReconciledDifference, ReconciliationReport } from '#server/contract/reconciliations.ts';
import { useIsAdministrator } from '../../lib/api/session.ts';
import { showCount, showCounted } from '../../lib/format/show.ts';
import { Button } from '../../ui/button.tsx';
import { Select } from '../../ui/form/field.tsx';
import { Badge, Card } from '../../ui/layout/parts.tsx';
import { type Column, Table } from '../../ui/layout/table.tsx';
import { orNone, showSigned } from './words.ts';
import { lazyPart } from '../../lib/lazy-part.ts';

const ApplyDialog = lazyPart(() => import('./apply-dialog.tsx'), 'ApplyDialog');

/** Requests that a row links to; the CSV has up to twenty. */
const LINKED_MAX = 3;
const FROM = '/inside/admin/reconciliation/report';

const isOpen = ({ correctable, corrected }: ReconciledDifference): boolean => correctable > corrected;

/** The differences, with those selected that are to be recorded as adjustments. */
export function Differences({ report }: { report: ReconciliationReport }) {
  const { class: wanted } = useSearch({ from: FROM });
  const navigate = useNavigate({ from: '/admin/reconciliation/report' });
  const isAdministrator = useIsAdministrator();
  const [selected, setSelected] = useState<ReadonlySet<number>>(new Set());
  const [isApplying, setIsApplying] = useState(false);
  const rows = report.differences.filter(({ class: id }) => wanted === undefined || id === wanted);
  const chosen = report.differences.filter((each) => selected.has(each.id) && isOpen(each));
  const open = rows.filter(isOpen);
  if (report.differences.length === 0) return null;
  const toggle = (ids: readonly number[], isOn: boolean): void => {
    const next = new Set(selected);
    for (const id of ids) {
      if (isOn) next.add(id);
      else next.delete(id);
    }
    setSelected(next);
  };
  const names = new Map(report.classes.map(({ class: id, name }) => [id, name]));
  return (
    <Card
      title="Differences"
      flush
      actions={
        <>
          <Select
            aria-label="Class"
            value={wanted ?? ''}
            onChange={({ target }) =>
              void navigate({
                search: ({ id }) => ({
                  ...(id === undefined ? {} : { id }),
                  ...(target.value === '' ? {} : { class: target.value }),
                }),
                replace: true,
              })
            }
          >
            <option value="">All classes</option>
            {report.classes.map(({ class: id, name, count }) => (
              <option key={id} value={id}>
                {name} ({showCount(count)})
              </option>
            ))}
          </Select>
          {isAdministrator && (
            <Button disabled={chosen.length === 0} onClick={() => setIsApplying(true)}>
              Record as adjustments{chosen.length > 0 && ` (${showCount(chosen.length)})`}
            </Button>
          )}
        </>
      }
    >
      <Table
        label="Differences"
        rows={rows}
        keyOf={({ id }) => String(id)}
        columns={[
          ...(isAdministrator && open.length > 0 ? [selectColumn(open, selected, toggle)] : []),
          ...columnsOf((id) => names.get(id) ?? id),
        ]}
        empty={<p className="px-4 py-10 text-center text-muted">No differences of this class.</p>}
      />
      {report.differences_omitted > 0 && (
        <p className="border-t border-line px-4 py-2 text-xs text-muted">
          {showCount(report.differences_omitted)} more: download the CSV.
        </p>
      )}
      <Suspense>
        {isApplying && (
          <ApplyDialog
            reconciliation={report.id}
            provider={report.provider}
            chosen={chosen}
            onClose={() => setIsApplying(false)}
            onDone={() => setSelected(new Set())}
          />
        )}
      </Suspense>
    </Card>
  );
}

function selectColumn(
  open: readonly ReconciledDifference[],
  selected: ReadonlySet<number>,
  toggle: (ids: readonly number[], isOn: boolean) => void,
): Column<ReconciledDifference> {
  const box = 'size-4 align-middle accent-(--accent)';
  return {
    head: (
      <input
        type="checkbox"
        className={box}
        aria-label="Select all that can be applied"
        checked={open.every(({ id }) => selected.has(id))}
        onChange={({ target }) =>
          toggle(
            open.map(({ id }) => id),
            target.checked,
          )
        }
      />
    ),
    cell: (row) =>
      isOpen(row) && (
        <input
          type="checkbox"
          className={box}
          aria-label={`Select difference ${row.id}`}
          checked={selected.has(row.id)}
          onChange={({ target }) => toggle([row.id], target.checked)}
        />
      ),
  };
}

const columnsOf = (
  classNameOf: (id: ReconciledDifference['class']) => string,
): Column<ReconciledDifference>[] => [
  {
    head: 'Difference',
    cell: (row) => (
      <>
        <p className="font-medium">
          <span className="text-muted">{row.id}</span> {classNameOf(row.class)}
          {row.is_within_tolerance && (
            <>
              {' '}
              <Badge>Within tolerance</Badge>
            </>
          )}
        </p>
        {row.detail !== null && <p className="max-w-md text-muted wrap-anywhere">{row.detail}</p>}
        <p className="text-xs text-muted md:hidden">
          {row.day !== '' && <span className="block whitespace-nowrap">{row.day}</span>}
          {[row.model, row.credential, row.service_tier].filter(Boolean).join(' · ')}
        </p>
      </>
    ),
  },
  {
    head: 'Day',
    isExtra: true,
    cell: ({ day }) => <span className="whitespace-nowrap">{day || 'Several'}</span>,
  },
  { head: 'Model', isExtra: true, cell: ({ model }) => <span className="break-all">{orNone(model)}</span> },
  { head: 'Credential', isExtra: true, cell: ({ credential }) => orNone(credential) },
  { head: 'Tier', isExtra: true, cell: ({ service_tier: tier }) => tier ?? 'standard' },
  { head: 'Requests', isExtra: true, cell: (row) => <Requests difference={row} /> },
  { head: 'Count', align: 'right', cell: ({ count }) => showCount(count) },
  { head: 'Bill − log', align: 'right', cell: (row) => showSigned(BigInt(row.amount_nanousd)) },
  { head: 'Review', cell: (row) => <Review difference={row} /> },
];

/** Links to requests of the log, or the provider's ids of those that it lacks. */
function Requests({ difference: { requests, places, count } }: { difference: ReconciledDifference }) {
  const shown = requests.slice(0, LINKED_MAX);
  if (shown.length === 0) return <span className="text-xs break-all text-muted">{places[0] ?? '–'}</span>;
  return (
    <ul className="text-xs">
      {shown.map(({ request, provider_request: provider }, index) => (
        <li key={index} className="whitespace-nowrap">
          {request === null ? (
            <code className="font-mono text-muted">{provider}</code>
          ) : (
            <Link to="/requests" search={{ request }} className="font-mono underline hover:text-accent">
              …{request.slice(-12)}
            </Link>
          )}
        </li>
      ))}
      {count > shown.length && <li className="text-muted">{showCount(count - shown.length)} more</li>}
    </ul>
  );
}

/** Whether a difference was applied, can be, or needs nothing. */
function Review({ difference: { correctable, corrected } }: { difference: ReconciledDifference }) {
  if (correctable === 0) return <span className="text-muted">–</span>;
  if (corrected === correctable) return <Badge tone="success">Recorded</Badge>;
  if (corrected > 0)
    return (
      <Badge tone="warn">
        {showCount(corrected)} of {showCounted(correctable, 'request')}
      </Badge>
    );
  return <Badge>To review</Badge>;
}
