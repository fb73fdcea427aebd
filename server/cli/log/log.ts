import type { Command } from '#db/command-line/command.ts';
import { withJson } from '#db/command-line/print.ts';
import { closeClient } from '#db/postgres/connect.ts';
import type { Placed } from '#db/events/events.ts';
import { follow } from '#db/log/follow.ts';
import { readHead } from '#db/log/read.ts';
import { borrowStore, connectRelay } from '#db/postgres/store.ts';
import { logCheckpointCommands } from '#server/cli/log/log-checkpoints.ts';
import { logKeyCommands } from '#server/cli/log/log-keys.ts';
import { readConfig } from '#server/process/config.ts';

/** `daybook log …` */
export function logCommands(program: Command): void {
  const log = program.command('log').description('the event log, its checkpoints and signing keys');

  withJson(log.command('tail'))
    .description('print the newest events, then new ones as they are appended, until Ctrl-C')
    .option('-n, --lines <count>', 'number of newest events to begin with', '10')
    .option('--no-follow', 'print the newest events and exit')
    .action((options: { lines: string; follow: boolean }, command: Command) => {
      const { json } = command.optsWithGlobals<{ json?: boolean }>();
      return tail(command, Number(options.lines) || 0, options.follow, json === true ? asJson : asText);
    });

  logCheckpointCommands(log);
  logKeyCommands(log);
}

async function tail(
  { surroundings }: Command,
  lines: number,
  goOn: boolean,
  show: (placed: Placed) => string,
): Promise<void> {
  const { store, close } = await borrowStore(readConfig(surroundings.env), () => {});
  try {
    const client = await connectRelay(store);
    const head = await readHead(client);
    await closeClient(client);
    const ended = Promise.withResolvers<void>();
    process.once('SIGINT', ended.resolve);
    process.once('SIGTERM', ended.resolve);
    const follower = follow({
      config: store.config('relay'),
      scope: 'all',
      after: Math.max(0, head - lines),
      onPage: (events) => {
        surroundings.out(events.map((placed) => `${show(placed)}\n`).join(''));
      },
      onCurrent: () => {
        if (!goOn) ended.resolve();
      },
      onError: (error) =>
        surroundings.err(
          `daybook: the log can't be read right now (${(error as Error).message}); retrying\n`,
        ),
    });
    await ended.promise;
    await follower.close();
  } finally {
    await close();
  }
}

function asJson({ position, at, instance, stream, version, event }: Placed): string {
  return JSON.stringify({ position, at, instance, ...(stream === null ? {} : { stream, version }), event });
}

function asText({ position, at, event }: Placed): string {
  const { type, ...fields } = event;
  const rest = Object.entries(fields)
    .filter(([name]) => name !== 'digest')
    .map(([name, value]) => `${name}=${typeof value === 'object' ? JSON.stringify(value) : String(value)}`);
  return `${String(position).padStart(8)}  ${at.toISOString()}  ${type.padEnd(18)}  ${rest.join(' ')}`;
}
