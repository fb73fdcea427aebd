import { type Selectable, sql } from 'kysely';
import type { ClientBase } from 'pg';
import type { AlertFilter, AlertKind } from '#db/alerts/alerts.ts';
import { publicId } from '#db/ids.ts';
import { createWebhookSecret, sealTarget } from '#db/alerts/webhooks.ts';
import { countOf, db, onlyRowOf, rowOf, rowsOf } from '#db/schema/query.ts';
import type { WebhookTable } from '#db/schema/tables.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { WEBHOOKS_MAX, WEBHOOK_URL_CHARACTERS_MAX } from '#server/control/bounds.ts';

/** The webhooks that receive alerts, as the command line and the dashboard manage them. */

/**
 * A webhook as it is shown: the origin of its address, and never its secret. `account` is the account whose
 * alerts it receives; null: all accounts.
 */
export type Webhook = Omit<Selectable<WebhookTable>, 'sealed_target' | 'alerts' | 'filter'> & {
  alerts: AlertKind[];
  filter: WebhookFilter;
};
export type WebhookFilter = Omit<AlertFilter, 'account'>;

/**
 * Adds a webhook.
 * @returns the signing secret, which is never returned again.
 * @throws {DecisionError} when the address is invalid, or there are too many webhooks.
 */
export async function addWebhook(
  client: ClientBase,
  pepper: Buffer,
  wanted: {
    url: string;
    account: string | null;
    alerts: readonly AlertKind[];
    filter: WebhookFilter;
    allowPrivate: boolean;
  },
): Promise<{ id: string; origin: string; secret: string }> {
  const { href, origin } = checkUrl(wanted.url);
  const id = publicId();
  const secret = createWebhookSecret();
  const webhook = db
    .selectNoFrom([
      sql.val(id).as('id'),
      sql.val(origin).as('origin'),
      sql.val(sealTarget(pepper, id, { url: href, secret })).as('sealed_target'),
      sql.val(wanted.account).as('account'),
      sql.val([...new Set(wanted.alerts)]).as('alerts'),
      sql<string>`${JSON.stringify(wanted.filter)}::jsonb`.as('filter'),
      sql.val(wanted.allowPrivate).as('allow_private'),
    ])
    .where(
      ({ selectFrom }) => selectFrom('daybook.webhook').select(({ fn }) => fn.countAll<number>().as('count')),
      '<',
      WEBHOOKS_MAX,
    );
  const insert = db
    .insertInto('daybook.webhook')
    .columns(['id', 'origin', 'sealed_target', 'account', 'alerts', 'filter', 'allow_private'])
    .expression(webhook);
  if ((await countOf(client, insert)) === 0)
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
  return rowsOf(
    client,
    db
      .selectFrom('daybook.webhook')
      .select(({ ref }) => ['id', 'origin', 'account', ref('alerts').$castTo<AlertKind[]>().as('alerts')])
      .select(({ ref }) => ref('filter').$castTo<WebhookFilter>().as('filter'))
      .select(['allow_private', 'created_at', 'failures', 'failing_since', 'switched_off_at'])
      .orderBy('created_at'),
  );
}

/**
 * Removes a webhook; its pending deliveries are dropped. @throws {DecisionError} when there is no such
 * webhook.
 */
export async function removeWebhook(client: ClientBase, id: string): Promise<void> {
  const deleted = await countOf(client, db.deleteFrom('daybook.webhook').where('id', '=', id));
  if (deleted === 0) throw notFound(id);
}

/**
 * Queues a test delivery, which a worker sends.
 * @returns the id of the delivery.
 * @throws {DecisionError} when there is no such webhook, or no worker has run on this database.
 */
export async function testWebhook(client: ClientBase, id: string): Promise<string> {
  const known = db.selectFrom('daybook.webhook').select('id').where('id', '=', id);
  if ((await rowOf(client, known)) === undefined) throw notFound(id);
  const { delivery } = await onlyRowOf(
    client,
    db.selectNoFrom(sql<string | null>`daybook.test_webhook(${id})`.as('delivery')),
  );
  if (delivery === null)
    throw new DecisionError(
      'not_allowed',
      'No worker has run on this database yet, and workers send. Start one first.',
    );
  return delivery;
}

const notFound = (id: string): DecisionError => new DecisionError('not_found', `There is no webhook ${id}.`);
