import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import { ALERT_DETAIL_FIELDS, ALERT_KINDS, type AlertKind } from '#db/alerts/alerts.ts';
import {
  type FilterOptions,
  filterText,
  readFilterOptions,
  withFilterOptions,
} from '#db/command-line/call-filter.ts';
import type { Command } from '#db/command-line/command.ts';
import { withJson } from '#db/command-line/print.ts';
import { showTable } from '#db/command-line/table.ts';
import { db, rowsOf } from '#db/schema/query.ts';
import { run, type Session } from '#server/cli/control-session.ts';
import { requireAccount } from '#server/decide/account.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { loadPepper } from '#server/secrets/pepper.ts';
import {
  addWebhook,
  listWebhooks,
  removeWebhook,
  testWebhook,
  type Webhook,
} from '#server/control/webhooks.ts';

const DELIVERIES_SHOWN = 50;
/** A little longer than the worker's timeout of a delivery. */
const TEST_WAIT_MS = 15_000;
const TEST_POLL_MS = 200;

/** `daybook webhook …` */
export function webhookCommands(program: Command): void {
  const webhook = program
    .command('webhook')
    .description('webhooks that receive alerts, signed per Standard Webhooks');

  const adding = withJson(webhook.command('add').argument('<url>', 'the address that alerts are sent to'))
    .description('add a webhook and print its signing secret, which is shown once')
    .option('--account <name>', 'only alerts about this account');
  withFilterOptions(adding, 'alerts about', ALERT_DETAIL_FIELDS)
    .option(
      '--alerts <kinds>',
      `alerts to send, separated by commas: ${ALERT_KINDS.join(', ')}`,
      ALERT_KINDS.join(','),
    )
    .option('--allow-private', 'allow an address on this machine or in a private network')
    .action((url: string, options: AddOptions, command: Command) =>
      run(command, (session) => add(session, url, options), showAdded),
    );

  withJson(webhook.command('list'))
    .description('list webhooks, without their addresses and secrets')
    .action((_options: unknown, command: Command) => run(command, list, showList));

  withJson(webhook.command('remove').argument('<id>', "the webhook's id"))
    .description('remove a webhook; its pending deliveries are dropped')
    .action((id: string, _options: unknown, command: Command) =>
      run(
        command,
        (session) => remove(session, id),
        () => `Webhook ${id} is removed.`,
      ),
    );

  withJson(webhook.command('test').argument('<id>', "the webhook's id"))
    .description('send a test delivery now; a disabled webhook is enabled again when it succeeds')
    .action((id: string, _options: unknown, command: Command) =>
      run(
        command,
        (session) => test(session, id),
        ({ state, reply }) =>
          state === 'delivered'
            ? `Webhook ${id} accepted the test (${reply}).`
            : state === 'failed'
              ? `Webhook ${id} did not accept the test: ${reply}.`
              : 'The test is still pending. Check that a worker is running, and see webhook deliveries.',
      ),
    );

  withJson(webhook.command('deliveries').argument('[id]', "the webhook's id"))
    .description(`list the newest ${DELIVERIES_SHOWN} deliveries of one webhook, or of all`)
    .action((id: string | undefined, _options: unknown, command: Command) =>
      run(
        command,
        ({ client }) => readDeliveries(client, id === undefined ? {} : { webhook: id }),
        showDeliveries,
      ),
    );
}

type AddOptions = FilterOptions & { account?: string; alerts: string; allowPrivate?: true };
type Added = { id: string; origin: string; secret: string };

async function add({ config, control, client }: Session, url: string, options: AddOptions): Promise<Added> {
  const alerts = checkKinds(options.alerts);
  const account =
    options.account === undefined
      ? null
      : requireAccount((await control.load()).accountNamed(options.account), options.account).id;
  const pepper = await loadPepper(client, config);
  const allowPrivate = options.allowPrivate ?? false;
  return addWebhook(client, pepper, {
    url,
    account,
    alerts,
    filter: readFilterOptions(options),
    allowPrivate,
  });
}

function checkKinds(text: string): AlertKind[] {
  const kinds = text.split(',').map((each) => each.trim());
  const unknown = kinds.find((kind) => !(ALERT_KINDS as readonly string[]).includes(kind));
  if (unknown !== undefined)
    throw new DecisionError('invalid', `--alerts: "${unknown}" is not one of ${ALERT_KINDS.join(', ')}.`);
  return [...new Set(kinds as AlertKind[])];
}

function showAdded({ id, origin, secret }: Added): string {
  return [
    `Webhook ${id} to ${origin}. Its secret is shown only once; the receiver verifies signatures with it:`,
    '',
    `  ${secret}`,
    '',
  ].join('\n');
}

async function list({ control, client }: Session): Promise<Webhook[]> {
  const model = await control.load();
  return (await listWebhooks(client)).map((row) => ({
    ...row,
    account: row.account === null ? null : (model.account(row.account)?.name ?? row.account),
  }));
}

function showList(webhooks: Webhook[]): string {
  if (webhooks.length === 0)
    return 'There are no webhooks. Add one with: npm run -s daybook -- webhook add URL';
  return showTable(
    ['ID', 'STATE', 'TO', 'ACCOUNT', 'ALERTS', 'ONLY'],
    webhooks.map(({ id, origin, account, alerts, filter, failures, switched_off_at }) => [
      id,
      switched_off_at
        ? `off since ${switched_off_at.toISOString()}`
        : failures > 0
          ? `${failures} failed`
          : 'on',
      origin,
      account ?? 'all',
      alerts.join(', '),
      filterText(filter),
    ]),
  );
}

async function remove({ client }: Session, id: string): Promise<{ id: string }> {
  await removeWebhook(client, id);
  return { id };
}

type Tested = { delivery: string; state: Delivery['state']; reply: string | null };

async function test({ client }: Session, id: string): Promise<Tested> {
  const delivery = await testWebhook(client, id);
  const endMs = performance.now() + TEST_WAIT_MS;
  for (;;) {
    const [found] = await readDeliveries(client, { delivery });
    const state = found?.state ?? 'failed';
    if (state !== 'waiting' || performance.now() > endMs)
      return { delivery, state, reply: found?.reply ?? null };
    await new Promise((resolve) => setTimeout(resolve, TEST_POLL_MS));
  }
}

type Delivery = Awaited<ReturnType<typeof readDeliveries>>[number];

/** Deliveries with the result of the last attempt, newest first. */
function readDeliveries(client: ClientBase, of: { webhook?: string; delivery?: string }) {
  let query = db
    .selectFrom('daybook.webhook_delivery as d')
    .innerJoin('daybook.alert as a', 'a.id', 'd.alert')
    .leftJoinLateral(
      ({ selectFrom }) =>
        selectFrom('daybook.webhook_attempt as t')
          .select([sql<string | null>`coalesce(t.status::text, t.fault)`.as('reply'), 't.duration_ms'])
          .whereRef('t.delivery', '=', 'd.id')
          .orderBy('t.attempted_at', 'desc')
          .limit(1)
          .as('last'),
      (join) => join.onTrue(),
    )
    .select(['d.id', 'd.webhook', 'd.state', 'd.created_at', 'last.reply', 'last.duration_ms'])
    .select([
      sql<string>`a.kind || '.' || a.state`.as('alert'),
      sql<number>`(select count(*)::int from daybook.webhook_attempt t where t.delivery = d.id)`.as(
        'attempts',
      ),
    ])
    .orderBy('d.id', 'desc')
    .limit(DELIVERIES_SHOWN);
  if (of.webhook !== undefined) query = query.where('d.webhook', '=', of.webhook);
  if (of.delivery !== undefined) query = query.where('d.id', '=', of.delivery);
  return rowsOf(client, query);
}

function showDeliveries(rows: Delivery[]): string {
  return showTable(
    ['WHEN', 'WEBHOOK', 'ALERT', 'STATE', 'ATTEMPTS', 'LAST REPLY', 'MS'],
    rows.map(({ created_at, webhook, alert, state, attempts, reply, duration_ms }) => [
      created_at.toISOString(),
      webhook,
      alert,
      state,
      String(attempts),
      reply ?? '-',
      duration_ms === null ? '-' : String(duration_ms),
    ]),
  );
}
