import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useSearch } from '@tanstack/react-router';
import { lazy, Suspense, useState } from 'react';
import type { WebhookRow } from '#server/contract/alerts.ts';
import { useIsAdministrator } from '../../lib/api/session.ts';
import { Button } from '../../ui/button.tsx';
import { PageHead } from '../../ui/layout/page-head.tsx';
import { Card } from '../../ui/layout/parts.tsx';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { AlertChips, AlertFilterBar } from './alert-filter.tsx';
import { AlertList } from './alert-list.tsx';
import { ALERTS_KEY, alertsQuery, webhooksQuery } from './alert-queries.ts';
import { WebhookList } from './webhook-list.tsx';

const AddWebhook = lazy(() =>
  import('./add-webhook.tsx').then(({ AddWebhook: component }) => ({ default: component })),
);
const RemoveWebhook = lazy(() =>
  import('./remove-webhook.tsx').then(({ RemoveWebhook: component }) => ({ default: component })),
);
const WebhookDialog = lazy(() =>
  import('./webhook-dialog.tsx').then(({ WebhookDialog: component }) => ({ default: component })),
);

type Open = { view: 'add' } | { view: 'show' | 'remove'; webhook: WebhookRow } | null;

export function AlertsPage() {
  const queries = useQueryClient();
  const filter = useSearch({ from: '/inside/admin/alerts' });
  const alerts = useQuery(alertsQuery(filter));
  const webhooks = useQuery(webhooksQuery);
  const isAdministrator = useIsAdministrator();
  const [open, setOpen] = useState<Open>(null);
  const close = (): void => setOpen(null);
  const refresh = (): void => {
    for (const queryKey of [ALERTS_KEY, webhooksQuery.queryKey]) void queries.invalidateQueries({ queryKey });
  };
  return (
    <>
      <PageHead title="Alerts" about="Notifications and where they are delivered.">
        <Button icon="refresh" busy={alerts.isFetching && !alerts.isPending} onClick={refresh}>
          Refresh
        </Button>
        {isAdministrator && (
          <Button look="primary" icon="plus" onClick={() => setOpen({ view: 'add' })}>
            Add webhook
          </Button>
        )}
      </PageHead>
      <div className="flex flex-col gap-5">
        <Card title="Webhooks" flush>
          <Loaded query={webhooks} title="Couldn’t load webhooks" height="h-40">
            {(rows) => (
              <WebhookList
                webhooks={rows}
                mayChange={isAdministrator}
                onShow={(webhook) => setOpen({ view: 'show', webhook })}
                onRemove={(webhook) => setOpen({ view: 'remove', webhook })}
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
        {open?.view === 'add' && <AddWebhook onClose={close} />}
        {open?.view === 'show' && (
          <WebhookDialog
            webhook={webhooks.data?.find(({ id }) => id === open.webhook.id) ?? open.webhook}
            mayTest={isAdministrator}
            onClose={close}
          />
        )}
        {open?.view === 'remove' && <RemoveWebhook webhook={open.webhook} onClose={close} />}
      </Suspense>
    </>
  );
}
