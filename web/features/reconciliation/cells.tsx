import { useState } from 'react';
import type { ReconciledCell } from '#server/contract/reconciliations.ts';
import { showCost, showCount } from '../../lib/format/show.ts';
import { Segments } from '../../ui/form/segments.tsx';
import { Card } from '../../ui/layout/parts.tsx';
import { type Column, Table } from '../../ui/layout/table.tsx';
import { orNone, showSigned } from './words.ts';

const apartOf = ({ bill_nanousd, log_nanousd }: ReconciledCell): bigint =>
  BigInt(bill_nanousd) - BigInt(log_nanousd);

const COLUMNS: readonly Column<ReconciledCell>[] = [
  {
    head: 'Day',
    cell: ({ day, model, credential, service_tier: tier }) => (
      <>
        <span className="whitespace-nowrap">{day === '' ? 'All others' : day}</span>
        <p className="text-xs text-muted md:hidden">
          {[model, credential, tier].filter((name) => name !== null).join(' · ')}
        </p>
      </>
    ),
  },
  { head: 'Model', isExtra: true, cell: ({ model }) => <span className="break-all">{orNone(model)}</span> },
  { head: 'Credential', isExtra: true, cell: ({ credential }) => orNone(credential) },
  { head: 'Tier', isExtra: true, cell: ({ service_tier: tier }) => tier ?? 'standard' },
  { head: 'Requests', align: 'right', isExtra: true, cell: ({ requests }) => showCount(requests) },
  { head: 'Provider’s bill', align: 'right', cell: (cell) => showCost(cell.bill_nanousd) },
  { head: 'Event log', align: 'right', cell: (cell) => showCost(cell.log_nanousd) },
  { head: 'Charged', align: 'right', cell: (cell) => showCost(cell.charged_nanousd) },
  {
    head: 'Bill − log',
    align: 'right',
    cell: (cell) => (
      <span className={apartOf(cell) === 0n ? 'text-muted' : ''}>{showSigned(apartOf(cell))}</span>
    ),
  },
];

/** Bill, log and charges by day, model, credential and service tier. */
export function Cells({
  cells,
  omitted,
  timeZone,
}: {
  cells: readonly ReconciledCell[];
  omitted: number;
  timeZone: string;
}) {
  const [which, setWhich] = useState<'all' | 'differing'>('all');
  const rows = which === 'all' ? cells : cells.filter((cell) => apartOf(cell) !== 0n);
  return (
    <Card
      title="By day, model, credential and tier"
      flush
      actions={
        <Segments
          label="Rows"
          choices={[
            ['all', 'All'],
            ['differing', 'Differing'],
          ]}
          chosen={which}
          onChoose={setWhich}
        />
      }
    >
      <Table
        label="Bill, log and charges by day"
        rows={rows}
        keyOf={({ day, model, credential, service_tier: tier }) =>
          JSON.stringify([day, model, credential, tier])
        }
        columns={COLUMNS}
        empty={<p className="px-4 py-10 text-center text-muted">No rows differ.</p>}
      />
      <p className="border-t border-line px-4 py-2 text-xs text-muted">
        Days of {timeZone}.
        {omitted > 0 && ` ${showCount(omitted)} more rows, which differ less: download the CSV.`}
      </p>
    </Card>
  );
}
