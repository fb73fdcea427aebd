import type { ClientBase } from 'pg';
import type { AlertKind } from '#db/alerts/alerts.ts';
import { publicId } from '#db/ids.ts';
import { createWebhookSecret, sealTarget } from '#db/alerts/webhooks.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { WEBHOOKS_MAX, WEBHOOK_URL_CHARACTERS_MAX } from '#server/control/bounds.ts';

/** The webhooks that receive alerts, as the command line and the dashboard manage them. */

/** A webhook as it is shown: the origin of its address, and never its secret. */
export type Webhook = {
  id: string;
  origin: string;
  /** The id of the account whose alerts it receives; null: all accounts. */
  account: string | null;
  alerts: AlertKind[];
  allow_private: boolean;
  created_at: Date;
  failures: number;
  failing_since: Date | null;
  switched_off_at: Date | null;
};

/**
 * Adds a webhook.
 * @returns the signing secret, which is never returned again.
 * @throws {DecisionError} when the address is invalid, or there are too many webhooks.
 */
export async function addWebhook(
  client: ClientBase,
  pepper: Buffer,
  wanted: { url: string; account: string | null; alerts: readonly AlertKind[]; allowPrivate: boolean },
): Promise<{ id: string; origin: string; secret: string }> {
  const { href, origin } = checkUrl(wanted.url);
  const id = publicId();
  const secret = createWebhookSecret();
  const { rowCount } = await client.query(
    `insert into daybook.webhook (id, origin, sealed_target, account, alerts, allow_private)
      select $1, $2, $3, $4, $5, $6 where (select count(*) from daybook.webhook) < ${WEBHOOKS_MAX}`,
    [
      id,
      origin,
      sealTarget(pepper, id, { url: href, secret }),
      wanted.account,
      [...new Set(wanted.alerts)],
      wanted.allowPrivate,
    ],
  );
  if (rowCount === 0)
    throw new DecisionError('not_allowed', `There are ${WEBHOOKS_MAX} webhooks already. Remove one first.`);
  return { id, origin, secret };
}

function checkUrl(text: string): URL {
  const url = URL.parse(text);
  if (
    url === null ||
    !['http:', 'https:'].includes(url.protocol) ||
    text.length > WEBHOOK_URL_CHARACTERS_MAX
  ) {
    throw new DecisionError('invalid', 'The address must be one such as https://alerts.example.com/daybook.');
  }
  if (url.username !== '' || url.password !== '')
    throw new DecisionError('invalid', 'The address must have no user: deliveries are signed instead.');
  return url;
}

/** All webhooks, the oldest first. */
export async function listWebhooks(client: ClientBase): Promise<Webhook[]> {
  const { rows } = await client.query<Webhook>(
    `select id, origin, account, alerts, allow_private, created_at, failures, failing_since, switched_off_at
      from daybook.webhook order by created_at`,
  );
  return rows;
}

/**
 * Removes a webhook; its pending deliveries are dropped. @throws {DecisionError} when there is no such
 * webhook.
 */
export async function removeWebhook(client: ClientBase, id: string): Promise<void> {
  const { rowCount } = await client.query('delete from daybook.webhook where id = $1', [id]);
  if (rowCount === 0) throw notFound(id);
}

/**
 * Queues a test delivery, which a worker sends.
 * @returns the id of the delivery.
 * @throws {DecisionError} when there is no such webhook, or no worker has run on this database.
 */
export async function testWebhook(client: ClientBase, id: string): Promise<string> {
  const { rows: known } = await client.query('select id from daybook.webhook where id = $1', [id]);
  if (known.length === 0) throw notFound(id);
  const { rows } = await client.query<{ delivery: string | null }>(
    'select daybook.test_webhook($1) as delivery',
    [id],
  );
  const delivery = rows[0]?.delivery ?? null;
  if (delivery === null)
    throw new DecisionError(
      'not_allowed',
      'No worker has run on this database yet, and workers send. Start one first.',
    );
  return delivery;
}

const notFound = (id: string): DecisionError => new DecisionError('not_found', `There is no webhook ${id}.`);
