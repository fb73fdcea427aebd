import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Suspense, useState } from 'react';
import type { ReconciliationList, ReconciliationRow } from '#server/contract/reconciliations.ts';
import { useIsAdministrator } from '../../lib/api/session.ts';
import { useNotices } from '../../lib/feed/use-notices.ts';
import { showCost, showCount } from '../../lib/format/show.ts';
import { useShortcuts } from '../../lib/hooks/use-shortcuts.ts';
import { Button } from '../../ui/button.tsx';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { PageHead } from '../../ui/layout/page-head.tsx';
import { Card, Empty } from '../../ui/layout/parts.tsx';
import { type Column, Table } from '../../ui/layout/table.tsx';
import { Ago } from '../../ui/when.tsx';
import { reconciliationsQuery } from './queries.ts';
import { showSigned, showInterval } from './words.ts';
import { lazyPart } from '../../lib/lazy-part.ts';

const CompareBill = lazyPart(() => import('./compare-bill.tsx'), 'CompareBill');

/** Recorded comparisons of providers' bills with the log. */
export function ReconciliationPage() {
  const query = useQuery(reconciliationsQuery);
  const isAdministrator = useIsAdministrator();
  const [isOpen, setIsOpen] = useState(false);
  const open = (): void => setIsOpen(true);
  useNotices(['reconciliation.'], [reconciliationsQuery.queryKey]);
  useShortcuts(isAdministrator ? { n: open } : {});
  return (
    <>
      <PageHead
        title="Reconciliation"
        about="Providers’ bills compared with the event log and with the charges of accounts."
      >
        {isAdministrator && (
          <Button look="primary" icon="plus" onClick={open} title="n">
            Compare bill
          </Button>
        )}
      </PageHead>
      <Card flush>
        <Loaded query={query} title="Couldn’t load reconciliations">
          {({ data, running }) => (
            <>
              {running !== null && <RunningTask task={running} />}
              <Table
                label="Reconciliations"
                rows={data}
                keyOf={({ id }) => id}
                columns={COLUMNS}
                empty={
                  <Empty icon="scale" title="No bills compared yet">
                    {isAdministrator
                      ? 'Upload a provider’s bill, or fetch it from its billing API. Every difference ' +
                        'from the event log gets a class and an amount.'
                      : 'An administrator can compare a provider’s bill with the event log.'}
                  </Empty>
                }
              />
            </>
          )}
        </Loaded>
      </Card>
      <Suspense>{isOpen && <CompareBill onClose={() => setIsOpen(false)} />}</Suspense>
    </>
  );
}

/** A task that a member started on this server, perhaps in another browser. */
function RunningTask({ task: { kind, done, of } }: { task: NonNullable<ReconciliationList['running']> }) {
  const what = kind === 'compare' ? 'A comparison is running' : 'Adjustments are being recorded';
  return (
    <p role="status" className="border-b border-line px-4 py-2.5 text-muted">
      {what} on this server{of > 0 && `: ${showCount(done)} of ${showCount(of)}`}.
    </p>
  );
}

const COLUMNS: readonly Column<ReconciliationRow>[] = [
  {
    head: 'Bill',
    cell: ({ id, provider, from, to }) => (
      <>
        <Link to="/admin/reconciliation/report" search={{ id }} className="font-medium hover:underline">
          {provider === '' ? 'Unnamed provider' : provider}
        </Link>
        <p className="text-xs whitespace-nowrap text-muted">{showInterval(from, to)}</p>
      </>
    ),
  },
  { head: 'Compared', cell: ({ recorded_at: at }) => <Ago time={at} />, isExtra: true },
  { head: 'Provider’s bill', align: 'right', cell: (row) => showCost(row.bill_nanousd) },
  { head: 'Event log', align: 'right', isExtra: true, cell: (row) => showCost(row.log_nanousd) },
  {
    head: 'Bill − log',
    align: 'right',
    cell: (row) => showSigned(BigInt(row.bill_nanousd) - BigInt(row.log_nanousd)),
  },
  { head: 'Charged', align: 'right', isExtra: true, cell: (row) => showCost(row.charged_nanousd) },
  { head: 'Differences', align: 'right', cell: (row) => showCount(row.differences) },
  {
    head: 'Unexplained',
    align: 'right',
    isExtra: true,
    cell: (row) => showCost(row.unexplained_nanousd),
  },
];
