import type { Selectable } from 'kysely';
import type { QueryResult, QueryResultRow } from 'pg';
import { z } from 'zod';
import { signedHeaders, type WebhookTarget } from '#db/alerts/webhooks.ts';
import type { AlertTable, WebhookDeliveryTable, WebhookTable } from '#db/schema/tables.ts';
import { post, type Reply } from '../receiver.ts';

/** A receiver that needs longer should acknowledge and queue the message. */
const TIMEOUT_MS = 10_000;
/** The pause after each failed attempt, 24 hours in total. After the last one the delivery has failed. */
const PAUSES_S = [5, 30, 300, 1_800, 3_600, 7_200, 14_400, 21_600, 36_000] as const;
/** A webhook is switched off after this many consecutive failures, the first of them a day ago. */
const FAILURES_MAX = 10;
const FAILING_HOURS_MAX = 24;

export const DeliverWebhook = z.object({ delivery: z.uuid() });

export type DeliverOptions = {
  query: <R extends QueryResultRow>(text: string, values: unknown[]) => Promise<QueryResult<R>>;
  /** @throws {Error} when the pepper is missing; the job is retried later. */
  open: (webhook: string, sealed: Buffer) => WebhookTarget;
  onSwitchedOff: (webhook: string) => void;
  /** Aborts an attempt without a response while the worker ends: it is not counted, and repeated. */
  signal: AbortSignal;
};

/** A waiting delivery with the contents of its message. */
const READ = `select d.webhook, w.sealed_target, w.allow_private, w.switched_off_at is not null as is_off,
    a.kind, a.state, a.account, a.details, a.raised_at, extract(epoch from clock_timestamp())::int as now_s,
    (select count(*)::int from daybook.webhook_attempt t where t.delivery = d.id) as attempts
  from daybook.webhook_delivery d
  join daybook.webhook w on w.id = d.webhook
  join daybook.alert a on a.id = d.alert
  where d.id = $1 and d.state = 'waiting'`;
const GIVE_UP = `update daybook.webhook_delivery set state = 'failed', ended_at = clock_timestamp()
  where id = $1`;
// Both lock the webhook's row first, as its removal does, so that they can't deadlock.
const DELIVERED = `with webhook as (
    update daybook.webhook set failures = 0, failing_since = null, switched_off_at = null
      where id = $4 returning id),
  attempt as (
    insert into daybook.webhook_attempt (delivery, status, duration_ms) select $1, $2, $3 from webhook)
  update daybook.webhook_delivery d set state = 'delivered', ended_at = clock_timestamp()
    from webhook where d.id = $1`;
const FAILED = `with webhook as (
    update daybook.webhook set failures = failures + 1,
        failing_since = coalesce(failing_since, clock_timestamp()),
        switched_off_at = coalesce(switched_off_at, case when $6
          or (failures + 1 >= ${FAILURES_MAX}
            and failing_since < clock_timestamp() - interval '${FAILING_HOURS_MAX} hours')
          then clock_timestamp() end)
      where id = $5 returning switched_off_at),
  attempt as (
    insert into daybook.webhook_attempt (delivery, status, fault, duration_ms)
      select $1, $2, $3, $4 from webhook)
  select switched_off_at from webhook`;
const AGAIN = `select daybook.queue_attempt($1, $2, $3 * interval '1 second')`;

type Waiting = Pick<Selectable<WebhookDeliveryTable>, 'webhook'> &
  Pick<Selectable<WebhookTable>, 'sealed_target' | 'allow_private'> &
  Pick<Selectable<AlertTable>, 'kind' | 'state' | 'account' | 'raised_at'> & {
    details: Record<string, unknown>;
    is_off: boolean;
    now_s: number;
    attempts: number;
  };

/**
 * Makes one attempt to deliver an alert and records its result; after a failure the next attempt is
 * queued. If the worker dies in between, the attempt is repeated: receivers recognize a repetition
 * by its `webhook-id`.
 */
export async function deliverWebhook(
  payload: unknown,
  { query, open, onSwitchedOff, signal }: DeliverOptions,
): Promise<void> {
  const { delivery } = DeliverWebhook.parse(payload);
  const { rows } = await query<Waiting>(READ, [delivery]);
  const [waiting] = rows;
  if (!waiting) return;
  const isTest = waiting.kind === 'test';
  if (waiting.is_off && !isTest) return void (await query(GIVE_UP, [delivery]));

  const startedMs = performance.now();
  const reply = await send(delivery, waiting, open(waiting.webhook, waiting.sealed_target), signal);
  const durationMs = Math.round(performance.now() - startedMs);
  if ('status' in reply && reply.status >= 200 && reply.status < 300) {
    return void (await query(DELIVERED, [delivery, reply.status, durationMs, waiting.webhook]));
  }

  const status = 'status' in reply ? reply.status : null;
  const fault = 'status' in reply ? null : reply.fault;
  // With 410 a receiver asks for no more messages.
  const after = await query<Pick<Selectable<WebhookTable>, 'switched_off_at'>>(FAILED, [
    delivery,
    status,
    fault,
    durationMs,
    waiting.webhook,
    status === 410,
  ]);
  // Without a row the webhook was removed.
  const isOff = after.rows[0]?.switched_off_at !== null;
  if (isOff && !waiting.is_off) onSwitchedOff(waiting.webhook);
  const pauseS = isOff || isTest ? undefined : PAUSES_S[waiting.attempts];
  await (pauseS === undefined
    ? query(GIVE_UP, [delivery])
    : query(AGAIN, [delivery, waiting.webhook, pauseS]));
}

function send(
  delivery: string,
  { kind, state, account, details, raised_at, allow_private, now_s }: Waiting,
  { url, secret }: WebhookTarget,
  signal: AbortSignal,
): Promise<Reply> {
  const body = JSON.stringify({
    type: `${kind}.${state}`,
    timestamp: raised_at.toISOString(),
    data: { account, ...details },
  });
  return post({
    url,
    headers: {
      'content-type': 'application/json',
      'user-agent': 'daybook',
      ...signedHeaders(secret, delivery, now_s, body),
    },
    body,
    allowPrivate: allow_private,
    timeoutMs: TIMEOUT_MS,
    signal,
  });
}
