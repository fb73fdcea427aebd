import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { InvoiceRow } from '#server/contract/statements.ts';
import { type NameOf, useAccountNames } from '../../lib/api/names.ts';
import { useIsAdministrator } from '../../lib/api/session.ts';
import { showCost, showCount } from '../../lib/format/show.ts';
import { Button } from '../../ui/button.tsx';
import { Download } from '../../ui/download.tsx';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { Card, Empty } from '../../ui/layout/parts.tsx';
import { actionsColumn, type Column, Table } from '../../ui/layout/table.tsx';
import { When } from '../../ui/when.tsx';
import { CreditDialog } from './credit-invoice.tsx';
import { invoicesQuery } from './queries.ts';

/** Invoices and credit notes, newest first. */
export function Invoices() {
  const query = useQuery(invoicesQuery);
  const nameOf = useAccountNames();
  const isAdministrator = useIsAdministrator();
  const [credited, setCredited] = useState<InvoiceRow | null>(null);
  return (
    <Card title="Invoices" flush>
      <Loaded query={query} title="Couldn’t load invoices" height="h-24">
        {({ data, rows_omitted: omitted }) => (
          <>
            <Table
              label="Invoices"
              rows={data}
              keyOf={({ position }) => String(position)}
              columns={[...columnsOf(nameOf), actions(isAdministrator, setCredited)]}
              empty={<Empty icon="invoice" title="No invoices yet" />}
            />
            {omitted > 0 && (
              <p className="border-t border-line px-4 py-2 text-xs text-muted">
                {showCount(omitted)} older: daybook invoice list.
              </p>
            )}
          </>
        )}
      </Loaded>
      {credited !== null && <CreditDialog invoice={credited} onClose={() => setCredited(null)} />}
    </Card>
  );
}

/** What a document has to do with its counterpart. */
const RELATIONS: Record<InvoiceRow['kind'], string> = {
  invoice: 'Taken back by',
  credit_note: 'Takes back',
  correction_note: 'Corrects',
};

const columnsOf = (nameOf: NameOf): Column<InvoiceRow>[] => [
  {
    head: 'Number',
    cell: ({ account, name, kind, counterpart }) => (
      <>
        <p className="font-medium whitespace-nowrap">{name}</p>
        <p className="text-xs wrap-anywhere text-muted md:hidden">{nameOf(account)}</p>
        {counterpart !== null && (
          <p className="text-xs text-muted">
            {RELATIONS[kind]} {counterpart}
          </p>
        )}
      </>
    ),
  },
  {
    head: 'Account',
    isExtra: true,
    cell: ({ account, period, reason }) => (
      <>
        <p className="wrap-anywhere">{nameOf(account)}</p>
        {period?.end_user != null && <p className="text-xs break-all text-muted">{period.end_user}</p>}
        {reason !== null && <p className="text-xs wrap-anywhere text-muted">{reason}</p>}
      </>
    ),
  },
  {
    head: 'Period',
    isExtra: true,
    cell: ({ period }) =>
      period && (
        <span className="whitespace-nowrap">
          {period.from.slice(0, 10)} to {new Date(Date.parse(period.to) - 1).toISOString().slice(0, 10)}
        </span>
      ),
  },
  { head: 'Issued', isExtra: true, cell: ({ at }) => <When time={at} form="date" /> },
  { head: 'Total', align: 'right', cell: ({ total_nanousd: total }) => showCost(total) },
];

const actions = (isAdministrator: boolean, onCredit: (row: InvoiceRow) => void): Column<InvoiceRow> =>
  actionsColumn((row) =>
    row.kind !== 'credit_note' ? (
      <span className="inline-flex justify-end gap-2 max-md:flex-col">
        <Download
          href={`/api/v1/invoices/${row.number}?format=pdf`}
          name="PDF"
          title={`Download ${row.name} as PDF`}
        />
        <Download
          href={`/api/v1/invoices/${row.number}?format=proof`}
          name="Proof"
          title={`Download ${row.name} with its proof`}
        />
        {isAdministrator && row.kind === 'invoice' && row.counterpart === null && (
          <Button onClick={() => onCredit(row)} aria-label={`Credit ${row.name}`}>
            Credit
          </Button>
        )}
      </span>
    ) : null,
  );
