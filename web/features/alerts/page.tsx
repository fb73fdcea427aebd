import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useSearch } from '@tanstack/react-router';
import { Suspense, useState } from 'react';
import type { DestinationRow } from '#server/contract/alerts.ts';
import { useIsAdministrator } from '../../lib/api/session.ts';
import { Button } from '../../ui/button.tsx';
import { PageHead } from '../../ui/layout/page-head.tsx';
import { Card } from '../../ui/layout/parts.tsx';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { AlertChips, AlertFilterBar } from './alert-filter.tsx';
import { AlertList } from './alert-list.tsx';
import { ALERTS_KEY, alertsQuery, destinationsQuery } from './alert-queries.ts';
import { DestinationList } from './destination-list.tsx';
import { lazyPart } from '../../lib/lazy-part.ts';

const AddDestination = lazyPart(() => import('./add-destination.tsx'), 'AddDestination');
const RemoveDestination = lazyPart(() => import('./remove-destination.tsx'), 'RemoveDestination');
const DestinationDialog = lazyPart(() => import('./destination-dialog.tsx'), 'DestinationDialog');

type Open = { view: 'add' } | { view: 'show' | 'remove'; destination: DestinationRow } | null;

export function AlertsPage() {
  const queries = useQueryClient();
  const filter = useSearch({ from: '/inside/admin/alerts' });
  const alerts = useQuery(alertsQuery(filter));
  const destinations = useQuery(destinationsQuery);
  const isAdministrator = useIsAdministrator();
  const [open, setOpen] = useState<Open>(null);
  const close = (): void => setOpen(null);
  const refresh = (): void => {
    for (const queryKey of [ALERTS_KEY, destinationsQuery.queryKey])
      void queries.invalidateQueries({ queryKey });
  };
  return (
    <>
      <PageHead title="Alerts" about="Notifications and where they are delivered.">
        <Button icon="refresh" busy={alerts.isFetching && !alerts.isPending} onClick={refresh}>
          Refresh
        </Button>
        {isAdministrator && (
          <Button look="primary" icon="plus" onClick={() => setOpen({ view: 'add' })}>
            Add destination
          </Button>
        )}
      </PageHead>
      <div className="flex flex-col gap-5">
        <Card title="Destinations" flush>
          <Loaded query={destinations} title="Couldn’t load destinations" height="h-40">
            {(rows) => (
              <DestinationList
                destinations={rows}
                mayChange={isAdministrator}
                onShow={(destination) => setOpen({ view: 'show', destination })}
                onRemove={(destination) => setOpen({ view: 'remove', destination })}
              />
            )}
          </Loaded>
        </Card>
        <Card title="Recent alerts" actions={<AlertFilterBar filter={filter} />} flush>
          <AlertChips filter={filter} />
          <Loaded query={alerts} title="Couldn’t load alerts">
            {(rows) => <AlertList alerts={rows} isFiltered={Object.keys(filter).length > 0} />}
          </Loaded>
        </Card>
      </div>
      <Suspense>
        {open?.view === 'add' && <AddDestination onClose={close} />}
        {open?.view === 'show' && (
          <DestinationDialog
            destination={destinations.data?.find(({ id }) => id === open.destination.id) ?? open.destination}
            mayTest={isAdministrator}
            onClose={close}
          />
        )}
        {open?.view === 'remove' && <RemoveDestination destination={open.destination} onClose={close} />}
      </Suspense>
    </>
  );
}
