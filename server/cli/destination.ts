import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import { ALERT_DETAIL_FIELDS, ALERT_KINDS, type AlertKind } from '#db/alerts/alerts.ts';
import { DESTINATION_KINDS, type DestinationKind } from '#db/alerts/destination-kinds.ts';
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
  addDestination,
  listDestinations,
  removeDestination,
  testDestination,
  type Destination,
} from '#server/control/destinations.ts';

const DELIVERIES_SHOWN = 50;
/** A little longer than the worker's timeout of a delivery. */
const TEST_WAIT_MS = 15_000;
const TEST_POLL_MS = 200;

/** `daybook destination …` */
export function destinationCommands(program: Command): void {
  const destination = program
    .command('destination')
    .description('alert destinations: signed webhooks, Slack, Microsoft Teams and email');

  const adding = withJson(addingCommand(destination))
    .description('add a destination; of a webhook, print its signing secret, which is shown once')
    .option('--account <name>', 'only alerts about this account');
  withFilterOptions(adding, 'alerts about', ALERT_DETAIL_FIELDS)
    .option(
      '--alerts <kinds>',
      `alerts to send, separated by commas: ${ALERT_KINDS.join(', ')}`,
      ALERT_KINDS.join(','),
    )
    .option('--allow-private', 'allow an address on this machine or in a private network')
    .action((kind: string, address: string, options: AddOptions, command: Command) =>
      run(command, (session) => add(session, { kind, address }, options), showAdded),
    );

  withJson(destination.command('list'))
    .description('list destinations, without their URLs and secrets')
    .action((_options: unknown, command: Command) => run(command, list, showList));

  withJson(destination.command('remove').argument('<id>', "the destination's id"))
    .description('remove a destination; its pending deliveries are dropped')
    .action((id: string, _options: unknown, command: Command) =>
      run(
        command,
        (session) => remove(session, id),
        () => `Destination ${id} is removed.`,
      ),
    );

  withJson(destination.command('test').argument('<id>', "the destination's id"))
    .description('send a test delivery now; a disabled destination is enabled again when it succeeds')
    .action((id: string, _options: unknown, command: Command) =>
      run(
        command,
        (session) => test(session, id),
        ({ state, reply }) =>
          state === 'delivered'
            ? `Destination ${id} accepted the test (${reply}).`
            : state === 'failed'
              ? `Destination ${id} did not accept the test: ${reply}.`
              : 'The test is still pending. Check that a worker is running, and see destination deliveries.',
      ),
    );

  withJson(destination.command('deliveries').argument('[id]', "the destination's id"))
    .description(`list the newest ${DELIVERIES_SHOWN} deliveries of one destination, or of all`)
    .action((id: string | undefined, _options: unknown, command: Command) =>
      run(
        command,
        ({ client }) => readDeliveries(client, id === undefined ? {} : { destination: id }),
        showDeliveries,
      ),
    );
}

type AddOptions = FilterOptions & { account?: string; alerts: string; allowPrivate?: true };
type Added = Awaited<ReturnType<typeof addDestination>>;

async function add(
  { config, control, client }: Session,
  { kind, address }: { kind: string; address: string },
  options: AddOptions,
): Promise<Added> {
  const alerts = checkKinds(options.alerts);
  const account =
    options.account === undefined
      ? null
      : requireAccount((await control.load()).accountNamed(options.account), options.account).id;
  const pepper = await loadPepper(client, config);
  const allowPrivate = options.allowPrivate ?? false;
  return addDestination(client, pepper, {
    kind: checkDestinationKind(kind),
    address,
    account,
    alerts,
    filter: readFilterOptions(options),
    allowPrivate,
  });
}

const addingCommand = (destination: Command): Command =>
  destination
    .command('add')
    .argument('<kind>', DESTINATION_KINDS.join(', '))
    .argument('<address>', 'the URL, or the email address, that alerts are sent to');

function checkDestinationKind(text: string): DestinationKind {
  const kind = DESTINATION_KINDS.find((each) => each === text);
  if (kind === undefined)
    throw new DecisionError('invalid', `"${text}" is not one of ${DESTINATION_KINDS.join(', ')}.`);
  return kind;
}

function checkKinds(text: string): AlertKind[] {
  const kinds = text.split(',').map((each) => each.trim());
  const unknown = kinds.find((kind) => !(ALERT_KINDS as readonly string[]).includes(kind));
  if (unknown !== undefined)
    throw new DecisionError('invalid', `--alerts: "${unknown}" is not one of ${ALERT_KINDS.join(', ')}.`);
  return [...new Set(kinds as AlertKind[])];
}

function showAdded({ id, kind, label, secret }: Added): string {
  const added = `Destination ${id}: ${kind} to ${label}.`;
  if (secret === null) return added;
  return [
    `${added} Its secret is shown only once; the receiver verifies signatures with it:`,
    '',
    `  ${secret}`,
    '',
  ].join('\n');
}

async function list({ control, client }: Session): Promise<Destination[]> {
  const model = await control.load();
  return (await listDestinations(client)).map((row) => ({
    ...row,
    account: row.account === null ? null : (model.account(row.account)?.name ?? row.account),
  }));
}

function showList(destinations: Destination[]): string {
  if (destinations.length === 0)
    return 'There are no destinations. Add one with: npm run -s daybook -- destination add webhook URL';
  return showTable(
    ['ID', 'KIND', 'STATE', 'TO', 'ACCOUNT', 'ALERTS', 'ONLY'],
    destinations.map(({ id, kind, label, account, alerts, filter, failures, switched_off_at }) => [
      id,
      kind,
      switched_off_at
        ? `off since ${switched_off_at.toISOString()}`
        : failures > 0
          ? `${failures} failed`
          : 'on',
      label,
      account ?? 'all',
      alerts.join(', '),
      filterText(filter),
    ]),
  );
}

async function remove({ client }: Session, id: string): Promise<{ id: string }> {
  await removeDestination(client, id);
  return { id };
}

type Tested = { delivery: string; state: Delivery['state']; reply: string | null };

async function test({ client }: Session, id: string): Promise<Tested> {
  const delivery = await testDestination(client, id);
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
function readDeliveries(client: ClientBase, of: { destination?: string; delivery?: string }) {
  let query = db
    .selectFrom('daybook.alert_delivery as d')
    .innerJoin('daybook.alert as a', 'a.id', 'd.alert')
    .leftJoinLateral(
      ({ selectFrom }) =>
        selectFrom('daybook.alert_attempt as t')
          .select([sql<string | null>`coalesce(t.status::text, t.fault)`.as('reply'), 't.duration_ms'])
          .whereRef('t.delivery', '=', 'd.id')
          .orderBy('t.attempted_at', 'desc')
          .limit(1)
          .as('last'),
      (join) => join.onTrue(),
    )
    .select(['d.id', 'd.destination', 'd.state', 'd.created_at', 'last.reply', 'last.duration_ms'])
    .select([
      sql<string>`a.kind || '.' || a.state`.as('alert'),
      sql<number>`(select count(*)::int from daybook.alert_attempt t where t.delivery = d.id)`.as('attempts'),
    ])
    .orderBy('d.id', 'desc')
    .limit(DELIVERIES_SHOWN);
  if (of.destination !== undefined) query = query.where('d.destination', '=', of.destination);
  if (of.delivery !== undefined) query = query.where('d.id', '=', of.delivery);
  return rowsOf(client, query);
}

function showDeliveries(rows: Delivery[]): string {
  return showTable(
    ['WHEN', 'DESTINATION', 'ALERT', 'STATE', 'ATTEMPTS', 'LAST REPLY', 'MS'],
    rows.map(({ created_at, destination, alert, state, attempts, reply, duration_ms }) => [
      created_at.toISOString(),
      destination,
      alert,
      state,
      String(attempts),
      reply ?? '-',
      duration_ms === null ? '-' : String(duration_ms),
    ]),
  );
}
