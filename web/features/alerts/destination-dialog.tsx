import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import type { DeliveryRow, DestinationRow } from '#server/contract/alerts.ts';
import { api } from '../../lib/api/api.ts';
import { FIELD_NAMES } from '../../lib/format/call-fields.ts';
import { useAccountNames } from '../../lib/api/names.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog/dialog.tsx';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { Badge, Facts } from '../../ui/layout/parts.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { When } from '../../ui/when.tsx';
import { ALERTS_KEY, deliveriesQuery, destinationsQuery } from './alert-queries.ts';
import { ALERTS, attemptLine, DESTINATIONS, kindName } from './alert-words.ts';
import { DestinationState } from './destination-list.tsx';

/** Destination details: state, a test, and the newest deliveries with their attempts. */
export function DestinationDialog({
  destination,
  mayTest,
  onClose,
}: {
  destination: DestinationRow;
  mayTest: boolean;
  onClose: () => void;
}) {
  const {
    id,
    kind,
    label,
    account,
    alerts,
    filter,
    allow_private: isPrivate,
    created_at: createdAt,
    disabled_at: offAt,
  } = destination;
  const queries = useQueryClient();
  const nameOf = useAccountNames();
  const deliveries = useQuery(deliveriesQuery(id));
  const test = useMutation({
    mutationFn: () => api('POST', `/api/v1/destinations/${id}/test`),
    onSuccess: () =>
      Promise.all(
        [deliveriesQuery(id).queryKey, destinationsQuery.queryKey, ALERTS_KEY].map((queryKey) =>
          queries.invalidateQueries({ queryKey }),
        ),
      ),
  });
  return (
    <Dialog onClose={onClose} shape="side" title={`${DESTINATIONS[kind].name} ${label}`}>
      <div className="flex flex-col gap-5">
        {offAt !== null && (
          <p className="rounded-lg border border-danger bg-danger-soft px-3 py-2 text-danger">
            Disabled since <When time={offAt} />: the destination failed for a day or responded with 410 Gone.
            A successful test enables it again. Alerts raised in between are not delivered.
          </p>
        )}
        <Facts
          facts={[
            ['State', <DestinationState key="state" destination={destination} />],
            [
              'ID',
              <code key="id" className="font-mono text-xs">
                {id}
              </code>,
            ],
            ['Kind', DESTINATIONS[kind].name],
            ['Alerts', alerts.map((alert) => ALERTS[alert].name).join(', ')],
            ['Scope', account === null ? 'All accounts and system alerts' : nameOf(account)],
            ...Object.entries(filter).map(
              ([field, value]) => [FIELD_NAMES[field as keyof typeof filter], value] as const,
            ),
            ...(kind === 'email' ? [] : [['Private network', isPrivate ? 'Allowed' : 'Blocked'] as const]),
            ['Added', <When key="added" time={createdAt} />],
          ]}
        />
        {mayTest && (
          <div className="flex flex-wrap items-center gap-3">
            <Button icon="rocket" busy={test.isPending} onClick={() => test.mutate()}>
              Send test
            </Button>
            <p className="text-xs text-muted">Sends one test alert. The response appears below.</p>
          </div>
        )}
        <FormProblem error={test.error} />
        <section aria-labelledby={`deliveries-${id}`}>
          <h3 id={`deliveries-${id}`} className="mb-2 font-semibold">
            Recent deliveries
          </h3>
          <Loaded query={deliveries} title="Couldn’t load deliveries" height="h-32">
            {(rows) =>
              rows.length === 0 ? (
                <p className="text-muted">No deliveries yet.</p>
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

const STATES = {
  pending: ['warn', 'Pending'],
  delivered: ['success', 'Delivered'],
  failed: ['danger', 'Failed'],
} as const;

function Delivery({
  delivery: { id, alert_kind: kind, state, created_at: at, attempts },
}: {
  delivery: DeliveryRow;
}) {
  return (
    <li className="px-3 py-2">
      <p className="flex flex-wrap items-center gap-x-2">
        <Badge tone={STATES[state][0]}>{STATES[state][1]}</Badge>
        <span>{kindName(kind)}</span>
        <span className="text-muted">
          <When time={at} />
        </span>
      </p>
      <p className="mt-1 text-xs text-muted">
        <code className="font-mono break-all">{id}</code>
      </p>
      {attempts.length === 0 ? (
        <p className="mt-1 text-xs text-muted">
          {state === 'pending'
            ? 'Not sent yet. Check under Status that a worker is running.'
            : 'Canceled before it was sent.'}
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
