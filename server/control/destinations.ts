import { type Selectable, sql } from 'kysely';
import type { ClientBase } from 'pg';
import type { AlertFilter, AlertKind } from '#db/alerts/alerts.ts';
import { publicId } from '#db/ids.ts';
import type { DestinationKind } from '#db/alerts/destination-kinds.ts';
import { type DestinationTarget, sealTarget } from '#db/alerts/destinations.ts';
import { createWebhookSecret } from '#db/alerts/webhooks.ts';
import { countOf, db, onlyRowOf, rowOf, rowsOf } from '#db/schema/query.ts';
import type { AlertDestinationTable } from '#db/schema/tables.ts';
import { Email } from '#server/contract/session.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { DESTINATIONS_MAX, DESTINATION_URL_CHARACTERS_MAX } from '#server/control/bounds.ts';

/** The destinations that alerts are sent to, as the command line and the dashboard manage them. */

/**
 * A destination as lists show it: of a URL the origin, and never a secret. `account` is the account whose
 * alerts it receives; null: all accounts.
 */
export type Destination = Omit<
  Selectable<AlertDestinationTable>,
  'kind' | 'sealed_target' | 'alerts' | 'filter'
> & {
  kind: DestinationKind;
  alerts: AlertKind[];
  filter: DestinationFilter;
};
export type DestinationFilter = Omit<AlertFilter, 'account'>;

/**
 * Adds a destination.
 * @returns the signing secret of a webhook, which is never returned again; null for other kinds.
 * @throws {DecisionError} when the address is invalid, or there are too many destinations.
 */
export async function addDestination(
  client: ClientBase,
  pepper: Buffer,
  wanted: {
    kind: DestinationKind;
    /** A URL, or the email address. */
    address: string;
    account: string | null;
    alerts: readonly AlertKind[];
    filter: DestinationFilter;
    allowPrivate: boolean;
  },
): Promise<{ id: string; kind: DestinationKind; label: string; secret: string | null }> {
  const { kind } = wanted;
  const { target, label } = targetOf(kind, wanted.address.trim());
  const id = publicId();
  const destination = db
    .selectNoFrom([
      sql.val(id).as('id'),
      sql.val(kind).as('kind'),
      sql.val(label).as('label'),
      sql.val(sealTarget(pepper, id, target)).as('sealed_target'),
      sql.val(wanted.account).as('account'),
      sql.val([...new Set(wanted.alerts)]).as('alerts'),
      sql<string>`${JSON.stringify(wanted.filter)}::jsonb`.as('filter'),
      sql.val(wanted.allowPrivate).as('allow_private'),
    ])
    .where(
      ({ selectFrom }) =>
        selectFrom('daybook.alert_destination').select(({ fn }) => fn.countAll<number>().as('count')),
      '<',
      DESTINATIONS_MAX,
    );
  const insert = db
    .insertInto('daybook.alert_destination')
    .columns(['id', 'kind', 'label', 'sealed_target', 'account', 'alerts', 'filter', 'allow_private'])
    .expression(destination);
  if ((await countOf(client, insert)) === 0)
    throw new DecisionError(
      'not_allowed',
      `There are ${DESTINATIONS_MAX} destinations already. Remove one first.`,
    );
  return { id, kind, label, secret: target.kind === 'webhook' ? target.secret : null };
}

/** The target and its label, which lists show. */
function targetOf(kind: DestinationKind, address: string): { target: DestinationTarget; label: string } {
  switch (kind) {
    case 'webhook': {
      const { href: url, origin: label } = checkUrl(address);
      return { target: { kind, url, secret: createWebhookSecret() }, label };
    }
    case 'slack':
    case 'teams': {
      const { href: url, origin: label } = checkUrl(address);
      return { target: { kind, url }, label };
    }
    case 'email': {
      const parsed = Email.safeParse(address);
      if (!parsed.success)
        throw new DecisionError('invalid', 'The address must be an email such as alerts@example.com.');
      return { target: { kind, address: parsed.data }, label: parsed.data };
    }
  }
}

function checkUrl(text: string): URL {
  const url = URL.parse(text);
  if (
    url === null ||
    !['http:', 'https:'].includes(url.protocol) ||
    text.length > DESTINATION_URL_CHARACTERS_MAX
  ) {
    throw new DecisionError('invalid', 'The address must be one such as https://alerts.example.com/daybook.');
  }
  if (url.username !== '' || url.password !== '')
    throw new DecisionError('invalid', 'The address must have no user and no password.');
  return url;
}

/** All destinations, the oldest first. */
export async function listDestinations(client: ClientBase): Promise<Destination[]> {
  return rowsOf(
    client,
    db
      .selectFrom('daybook.alert_destination')
      .select(({ ref }) => [
        'id',
        ref('kind').$castTo<DestinationKind>().as('kind'),
        'label',
        'account',
        ref('alerts').$castTo<AlertKind[]>().as('alerts'),
      ])
      .select(({ ref }) => ref('filter').$castTo<DestinationFilter>().as('filter'))
      .select(['allow_private', 'created_at', 'failures', 'failing_since', 'switched_off_at'])
      .orderBy('created_at'),
  );
}

/**
 * Removes a destination; its pending deliveries are dropped. @throws {DecisionError} when there is no such
 * destination.
 */
export async function removeDestination(client: ClientBase, id: string): Promise<void> {
  const deleted = await countOf(client, db.deleteFrom('daybook.alert_destination').where('id', '=', id));
  if (deleted === 0) throw notFound(id);
}

/**
 * Queues a test delivery, which a worker sends.
 * @returns the id of the delivery.
 * @throws {DecisionError} when there is no such destination, or no worker has run on this database.
 */
export async function testDestination(client: ClientBase, id: string): Promise<string> {
  const known = db.selectFrom('daybook.alert_destination').select('id').where('id', '=', id);
  if ((await rowOf(client, known)) === undefined) throw notFound(id);
  const { delivery } = await onlyRowOf(
    client,
    db.selectNoFrom(sql<string | null>`daybook.test_destination(${id})`.as('delivery')),
  );
  if (delivery === null)
    throw new DecisionError(
      'not_allowed',
      'No worker has run on this database yet, and workers send. Start one first.',
    );
  return delivery;
}

const notFound = (id: string): DecisionError =>
  new DecisionError('not_found', `There is no destination ${id}.`);
