import { setTimeout as wait } from 'node:timers/promises';
import type { Command } from '#db/command-line/command.ts';
import { withJson } from '#db/command-line/print.ts';
import { showTable } from '#db/command-line/table.ts';
import { readSinks, RESTORED_FAULT, type SinkStatus } from '#db/spend/sink-status.ts';
import { addCommands } from '#server/cli/sinks/add.ts';
import { run, type Session } from '#server/cli/control-session.ts';
import { type Change, isChange } from '#server/control/change.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { readPosition } from '#server/cli/sinks/position.ts';
import { SinkControl } from '#server/spend/sinks.ts';

/** `daybook sink …` */
export function sinkCommands(program: Command): void {
  const sink = program
    .command('sink')
    .description('receivers of spend events: webhooks, CloudEvents, Lago, Stripe meters and Kafka');
  addCommands(sink);

  withJson(sink.command('list'))
    .description('list sinks with their positions, without addresses and secrets')
    .action((_options: unknown, command: Command) => run(command, list, showList));

  changing(sink, 'pause', 'stop deliveries until `sink resume`', 'is paused', (control, name) =>
    control.pause(name),
  );
  changing(
    sink,
    'resume',
    'deliver again, and at once where deliveries failed',
    'delivers again',
    (control, name) => control.resume(name),
  );
  changing(sink, 'remove', 'remove a sink and its position permanently', 'is removed', (control, name) =>
    control.remove(name),
  );

  withJson(sink.command('test').argument('<name>', "the sink's name"))
    .description('send a test event, which no receiver counts, and wait for the reply')
    .action((name: string, _options: unknown, command: Command) =>
      run(
        command,
        (session) => test(session, name),
        () => `Sink "${name}" accepted the test event.`,
      ),
    );

  withJson(sink.command('rewind').argument('<name>', "the sink's name"))
    .description('continue behind another position: an earlier one repeats events, a later one omits events')
    .requiredOption('--to <position>', 'the position of the log; 0: from the beginning')
    .action((name: string, { to }: { to: string }, command: Command) =>
      run(
        command,
        ({ control, client }) => new SinkControl(control, client).rewind(name, readPosition(to)),
        ({ from }) => `Sink "${name}" moved from position ${from} to ${to}.`,
      ),
    );
}

function changing(
  parent: Command,
  name: string,
  description: string,
  done: string,
  change: (control: SinkControl, name: string) => Promise<Change>,
): void {
  withJson(parent.command(name).argument('<name>', "the sink's name"))
    .description(description)
    .action((sink: string, _options: unknown, command: Command) =>
      run(
        command,
        ({ control, client }) => change(new SinkControl(control, client), sink),
        (changed) => `Sink "${sink}" ${isChange(changed) ? done : `${done} already`}.`,
      ),
    );
}

const TEST_MAX_MS = 30_000;
const LOOK_MS = 250;

/**
 * Asks a worker for a test event and waits until the receiver has accepted it.
 * @throws {DecisionError} when it did not, or no worker sends the event.
 */
async function test({ control, client }: Session, name: string): Promise<{ name: string; accepted: true }> {
  const { id } = await new SinkControl(control, client).test(name);
  const deadlineMs = performance.now() + TEST_MAX_MS;
  while (performance.now() < deadlineMs) {
    const found = (await readSinks(client)).find((sink) => sink.id === id);
    if (found?.tested_at != null) {
      if (found.test_fault === null) return { name, accepted: true };
      throw new DecisionError('not_allowed', `Sink "${name}" did not accept the event: ${found.test_fault}.`);
    }
    await wait(LOOK_MS);
  }
  throw new DecisionError('not_allowed', 'No worker has sent the event within 30 s. Start one.');
}

async function list({ control, client }: Session): Promise<SinkStatus[]> {
  const model = await control.load();
  return (await readSinks(client)).map((row) => ({
    ...row,
    account: row.account === null ? null : (model.account(row.account)?.name ?? row.account),
  }));
}

function showList(sinks: SinkStatus[]): string {
  if (sinks.length === 0)
    return 'There are no sinks. Add one with: npm run -s daybook -- sink add webhook NAME URL';
  return showTable(
    ['NAME', 'KIND', 'ACCOUNT', 'STATE', 'POSITION', 'BEHIND', 'OLDEST', 'DELIVERED', 'NEXT ATTEMPT'],
    sinks.map((sink) => [
      sink.name,
      sink.kind,
      sink.account ?? 'all',
      stateOf(sink),
      String(sink.position),
      String(sink.behind),
      sink.behind === 0 ? '-' : `${Math.round(sink.behind_ms / 1_000)} s`,
      String(sink.delivered),
      sink.retry_at === null || sink.paused_at !== null ? '-' : sink.retry_at.toISOString(),
    ]),
  );
}

function stateOf({ paused_at, failures, fault }: SinkStatus): string {
  if (paused_at !== null)
    return `paused since ${paused_at.toISOString()}${fault === RESTORED_FAULT ? ' (restored)' : ''}`;
  return failures > 0 ? `${failures} failed (${fault ?? 'unknown'})` : 'healthy';
}
