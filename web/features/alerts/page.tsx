import { useQuery, useQueryClient } from '@tanstack/react-query';
import { lazy, Suspense, useState } from 'react';
import type { WebhookRow } from '#server/contract/alerts.ts';
import { useIsAdministrator } from '../../lib/session.ts';
import { Button } from '../../ui/button.tsx';
import { PageHead } from '../../ui/page-head.tsx';
import { Card } from '../../ui/parts.tsx';
import { Loaded } from '../../ui/loaded.tsx';
import { AlertList } from './alert-list.tsx';
import { alertsQuery, webhooksQuery } from './alert-queries.ts';
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

type Open = { what: 'add' } | { what: 'show' | 'remove'; webhook: WebhookRow } | null;

export function AlertsPage() {
  const queries = useQueryClient();
  const alerts = useQuery(alertsQuery);
  const webhooks = useQuery(webhooksQuery);
  const isAdministrator = useIsAdministrator();
  const [open, setOpen] = useState<Open>(null);
  const close = (): void => setOpen(null);
  const refresh = (): void => {
    for (const { queryKey } of [alertsQuery, webhooksQuery]) void queries.invalidateQueries({ queryKey });
  };
  return (
    <>
      <PageHead title="Alerts" about="What somebody should know of, and where it is sent.">
        <Button icon="refresh" busy={alerts.isFetching && !alerts.isPending} onClick={refresh}>
          Refresh
        </Button>
        {isAdministrator && (
          <Button look="primary" icon="plus" onClick={() => setOpen({ what: 'add' })}>
            Add a webhook
          </Button>
        )}
      </PageHead>
      <div className="flex flex-col gap-5">
        <Card title="Webhooks" flush>
          <Loaded query={webhooks} title="The webhooks could not be loaded" height="h-40">
            {(rows) => (
              <WebhookList
                webhooks={rows}
                mayChange={isAdministrator}
                onShow={(webhook) => setOpen({ what: 'show', webhook })}
                onRemove={(webhook) => setOpen({ what: 'remove', webhook })}
              />
            )}
          </Loaded>
        </Card>
        <Card title="Newest alerts" flush>
          <Loaded query={alerts} title="The alerts could not be loaded">
            {(rows) => <AlertList alerts={rows} />}
          </Loaded>
        </Card>
      </div>
      <Suspense>
        {open?.what === 'add' && <AddWebhook onClose={close} />}
        {open?.what === 'show' && (
          <WebhookDialog
            webhook={webhooks.data?.find(({ id }) => id === open.webhook.id) ?? open.webhook}
            mayTest={isAdministrator}
            onClose={close}
          />
        )}
        {open?.what === 'remove' && <RemoveWebhook webhook={open.webhook} onClose={close} />}
      </Suspense>
    </>
  );
}
