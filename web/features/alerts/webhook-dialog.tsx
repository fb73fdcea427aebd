import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import type { DeliveryRow, WebhookRow } from '#server/contract/alerts.ts';
import { api } from '../../lib/api.ts';
import { useAccountNames } from '../../lib/names.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Loaded } from '../../ui/loaded.tsx';
import { Badge, Facts } from '../../ui/parts.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { When } from '../../ui/when.tsx';
import { alertsQuery, deliveriesQuery, webhooksQuery } from './alert-queries.ts';
import { ALERTS, attemptLine, kindName } from './alert-words.ts';
import { WebhookState } from './webhook-list.tsx';

/** One webhook: how it fares, a test, and its newest deliveries with every attempt. */
export function WebhookDialog({
  webhook,
  mayTest,
  onClose,
}: {
  webhook: WebhookRow;
  mayTest: boolean;
  onClose: () => void;
}) {
  const {
    id,
    origin,
    account,
    alerts,
    allow_private: isPrivate,
    created_at: createdAt,
    disabled_at: offAt,
  } = webhook;
  const queries = useQueryClient();
  const nameOf = useAccountNames();
  const deliveries = useQuery(deliveriesQuery(id));
  const test = useMutation({
    mutationFn: () => api('POST', `/api/webhooks/${id}/test`),
    onSuccess: () =>
      Promise.all(
        [deliveriesQuery(id), webhooksQuery, alertsQuery].map(({ queryKey }) =>
          queries.invalidateQueries({ queryKey }),
        ),
      ),
  });
  return (
    <Dialog onClose={onClose} shape="side" title={<>Webhook to {origin}</>}>
      <div className="flex flex-col gap-5">
        {offAt !== null && (
          <p className="rounded-lg border border-bad bg-bad-soft px-3 py-2 text-bad">
            Switched off since <When time={offAt} />: its receiver failed for a day, or said with 410 that it
            is gone. Nothing is sent until a test is taken; then it is on again. Alerts from in between are
            not sent later.
          </p>
        )}
        <Facts
          facts={[
            ['State', <WebhookState key="state" webhook={webhook} />],
            [
              'Id',
              <code key="id" className="font-mono text-xs">
                {id}
              </code>,
            ],
            ['Alerts', alerts.map((kind) => ALERTS[kind].name).join(', ')],
            ['About', account === null ? 'All accounts, and the installation' : nameOf(account)],
            ['Private addresses', isPrivate ? 'Allowed' : 'Refused'],
            ['Added', <When key="added" time={createdAt} />],
          ]}
        />
        {mayTest && (
          <div className="flex flex-wrap items-center gap-3">
            <Button icon="rocket" busy={test.isPending} onClick={() => test.mutate()}>
              Test now
            </Button>
            <p className="text-xs text-muted">
              The worker sends one signed test, once. What the receiver says stands below.
            </p>
          </div>
        )}
        <FormProblem error={test.error} />
        <section aria-labelledby={`deliveries-${id}`}>
          <h3 id={`deliveries-${id}`} className="mb-2 font-semibold">
            Newest deliveries
          </h3>
          <Loaded query={deliveries} title="The deliveries could not be loaded" height="h-32">
            {(rows) =>
              rows.length === 0 ? (
                <p className="text-muted">Nothing was sent there yet.</p>
              ) : (
                <ul className="flex flex-col divide-y divide-line rounded-lg border border-line">
                  {rows.map((row) => (
                    <Delivery key={row.id} delivery={row} />
                  ))}
                </ul>
              )
            }
          </Loaded>
        </section>
      </div>
    </Dialog>
  );
}

const STATES = { pending: 'warn', delivered: 'good', failed: 'bad' } as const;

function Delivery({
  delivery: { id, alert_kind: kind, state, created_at: at, attempts },
}: {
  delivery: DeliveryRow;
}) {
  return (
    <li className="px-3 py-2">
      <p className="flex flex-wrap items-center gap-x-2">
        <Badge tone={STATES[state]}>{state}</Badge>
        <span>{kindName(kind)}</span>
        <span className="text-muted">
          <When time={at} />
        </span>
      </p>
      <p className="mt-1 text-xs text-muted">
        <code className="font-mono break-all">webhook-id: {id}</code>
      </p>
      {attempts.length === 0 ? (
        <p className="mt-1 text-xs text-muted">
          {state === 'pending'
            ? 'The worker has not sent it yet. Is one running?'
            : 'It was given up before it was sent.'}
        </p>
      ) : (
        <ol className="mt-1 text-xs text-muted">
          {attempts.map((attempt) => (
            <li key={attempt.at}>
              <When time={attempt.at} form="time" />: {attemptLine(attempt)}
            </li>
          ))}
        </ol>
      )}
    </li>
  );
}
