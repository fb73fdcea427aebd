import type { Selectable } from 'kysely';
import type { QueryResult, QueryResultRow } from 'pg';
import { z } from 'zod';
import type { ReadAlert } from '#db/alerts/alert-line.ts';
import type { DestinationTarget } from '#db/alerts/destinations.ts';
import { signedHeaders } from '#db/alerts/webhooks.ts';
import type { AlertTable, AlertDeliveryTable, AlertDestinationTable } from '#db/schema/tables.ts';
import { type MailServer, sendEmail } from '../mail.ts';
import { emailOf } from '../messages/email.ts';
import { messageOf } from '../messages/message.ts';
import { slackBody } from '../messages/slack.ts';
import { teamsBody } from '../messages/teams.ts';
import { webhookBody } from '../messages/webhook.ts';
import { post, type Reply } from '../receiver.ts';

/** A receiver that needs longer should acknowledge and queue the message. */
const TIMEOUT_MS = 10_000;
/** The pause after each failed attempt, 24 hours in total. After the last one the delivery has failed. */
const PAUSES_S = [5, 30, 300, 1_800, 3_600, 7_200, 14_400, 21_600, 36_000] as const;
/** A destination is switched off after this many consecutive failures, the first of them a day ago. */
const FAILURES_MAX = 10;
const FAILING_HOURS_MAX = 24;

export const DeliverAlert = z.object({ delivery: z.uuid() });

export type DeliverOptions = {
  /** The origin of the dashboard, for links; null where the worker doesn't know it. */
  publicUrl: string | null;
  mailServer: MailServer | null;
  query: <R extends QueryResultRow>(text: string, values: unknown[]) => Promise<QueryResult<R>>;
  /** @throws {Error} when the pepper is missing; the job is retried later. */
  open: (destination: string, sealed: Buffer) => DestinationTarget;
  onSwitchedOff: (destination: string) => void;
  /** Aborts an attempt without a response while the worker ends: it is not counted, and repeated. */
  signal: AbortSignal;
};

/** A waiting delivery with the contents of its message. */
const READ = `select d.destination, w.sealed_target, w.allow_private, w.switched_off_at is not null as is_off,
    a.kind, a.state, a.account, a.details, a.raised_at, extract(epoch from clock_timestamp())::int as now_s,
    (select count(*)::int from daybook.alert_attempt t where t.delivery = d.id) as attempts
  from daybook.alert_delivery d
  join daybook.alert_destination w on w.id = d.destination
  join daybook.alert a on a.id = d.alert
  where d.id = $1 and d.state = 'waiting'`;
const GIVE_UP = `update daybook.alert_delivery set state = 'failed', ended_at = clock_timestamp()
  where id = $1`;
// Both lock the destination's row first, as its removal does, so that they can't deadlock.
const DELIVERED = `with destination as (
    update daybook.alert_destination set failures = 0, failing_since = null, switched_off_at = null
      where id = $4 returning id),
  attempt as (
    insert into daybook.alert_attempt (delivery, status, duration_ms) select $1, $2, $3 from destination)
  update daybook.alert_delivery d set state = 'delivered', ended_at = clock_timestamp()
    from destination where d.id = $1`;
const FAILED = `with destination as (
    update daybook.alert_destination set failures = failures + 1,
        failing_since = coalesce(failing_since, clock_timestamp()),
        switched_off_at = coalesce(switched_off_at, case when $6
          or (failures + 1 >= ${FAILURES_MAX}
            and failing_since < clock_timestamp() - interval '${FAILING_HOURS_MAX} hours')
          then clock_timestamp() end)
      where id = $5 returning switched_off_at),
  attempt as (
    insert into daybook.alert_attempt (delivery, status, fault, duration_ms)
      select $1, $2, $3, $4 from destination)
  select switched_off_at from destination`;
const AGAIN = `select daybook.queue_attempt($1, $2, $3 * interval '1 second')`;

type Waiting = Pick<Selectable<AlertDeliveryTable>, 'destination'> &
  Pick<Selectable<AlertDestinationTable>, 'sealed_target' | 'allow_private'> &
  Pick<Selectable<AlertTable>, 'account' | 'raised_at'> &
  ReadAlert & {
    is_off: boolean;
    now_s: number;
    attempts: number;
  };

/**
 * Makes one attempt to deliver an alert and records its result; after a failure the next attempt is
 * queued. If the worker dies in between, the attempt is repeated: receivers recognize a repetition
 * by its `webhook-id`.
 */
export async function deliverAlert(payload: unknown, options: DeliverOptions): Promise<void> {
  const { query, open, onSwitchedOff } = options;
  const { delivery } = DeliverAlert.parse(payload);
  const { rows } = await query<Waiting>(READ, [delivery]);
  const [waiting] = rows;
  if (!waiting) return;
  const isTest = waiting.kind === 'test';
  if (waiting.is_off && !isTest) return void (await query(GIVE_UP, [delivery]));

  const startedMs = performance.now();
  const reply = await send(
    { delivery, waiting, target: open(waiting.destination, waiting.sealed_target) },
    options,
  );
  const durationMs = Math.round(performance.now() - startedMs);
  if ('status' in reply && reply.status >= 200 && reply.status < 300) {
    return void (await query(DELIVERED, [delivery, reply.status, durationMs, waiting.destination]));
  }

  const status = 'status' in reply ? reply.status : null;
  const fault = 'status' in reply ? null : reply.fault;
  // With 410 a receiver asks for no more messages.
  const after = await query<Pick<Selectable<AlertDestinationTable>, 'switched_off_at'>>(FAILED, [
    delivery,
    status,
    fault,
    durationMs,
    waiting.destination,
    status === 410,
  ]);
  // Without a row the destination was removed.
  const isOff = after.rows[0]?.switched_off_at !== null;
  if (isOff && !waiting.is_off) onSwitchedOff(waiting.destination);
  const pauseS = isOff || isTest ? undefined : PAUSES_S[waiting.attempts];
  await (pauseS === undefined
    ? query(GIVE_UP, [delivery])
    : query(AGAIN, [delivery, waiting.destination, pauseS]));
}

type Attempt = { delivery: string; waiting: Waiting; target: DestinationTarget };

/** Renders the alert for the kind of its destination, and makes the attempt. */
function send({ delivery, waiting, target }: Attempt, options: DeliverOptions): Promise<Reply> {
  const { publicUrl, mailServer, signal } = options;
  const { kind, state, account, details, raised_at, allow_private: allowPrivate, now_s } = waiting;
  const alert = { kind, state, account, details, raised_at: raised_at.toISOString() };
  const postJson = (url: string, body: string, headers: Record<string, string>): Promise<Reply> =>
    post({
      url,
      headers: { 'content-type': 'application/json', 'user-agent': 'daybook', ...headers },
      body,
      allowPrivate,
      timeoutMs: TIMEOUT_MS,
      signal,
    });
  switch (target.kind) {
    case 'webhook': {
      const body = webhookBody(alert, publicUrl);
      return postJson(target.url, body, signedHeaders(target.secret, delivery, now_s, body));
    }
    case 'slack':
      return postJson(target.url, slackBody(messageOf(alert, publicUrl)), {});
    case 'teams':
      return postJson(target.url, teamsBody(messageOf(alert, publicUrl)), {});
    case 'email':
      // Without one, attempts go on: the worker may get its settings within a day.
      if (mailServer === null) return Promise.resolve({ fault: 'smtp_not_configured' });
      return sendEmail(mailServer, {
        to: target.address,
        ...emailOf(messageOf(alert, publicUrl)),
        id: delivery,
        timeoutMs: TIMEOUT_MS,
        signal,
      });
  }
}
