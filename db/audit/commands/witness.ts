import { setTimeout as wait } from 'node:timers/promises';
import { CommanderError } from 'commander';
import { readKeys } from '#db/audit/commands/verifier-keys.ts';
import { cosign } from '#db/audit/witness/evaluate.ts';
import { LogUnavailableError, LogClient } from '#db/audit/witness/log-client.ts';
import { poll, type PollResult, detectRollback, type Witness } from '#db/audit/witness/poll.ts';
import { type Alarm, parseCheckpointNote, WitnessState } from '#db/audit/witness/state.ts';
import { collect, type Command, type Surroundings } from '#db/command-line/command.ts';
import { print, withJson } from '#db/command-line/print.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { NoteError } from '#db/tlog/note.ts';
import { openCheckpoint } from '#db/tlog/checkpoint.ts';
import {
  POLL_INTERVAL_MAX_S,
  POLL_INTERVAL_MIN_S,
  WARNING_REPEAT_MS,
  WEBHOOK_TIMEOUT_MS,
} from '#db/audit/bounds.ts';

type Options = {
  log?: string;
  key?: string[];
  state: string;
  name?: string;
  every: string;
  once?: boolean;
  webhook?: string;
  accept?: string;
};

/** Lets a process supervisor distinguish an alarm from an unavailable log. */
const ALARM_EXIT = 2;

/** `daybook witness`: follows a log from another machine, and cosigns its checkpoints. */
export function witnessCommand(program: Command): void {
  withJson(program.command('witness'))
    .description(
      'follow a log from another machine and cosign its checkpoints while the log is append-only; ' +
        "needs no database. Without --log it prints this witness's verifier key, for the log's " +
        'WITNESSES. Exits with 2 on an alarm',
    )
    .requiredOption(
      '--state <directory>',
      'directory with the key and the state of this witness, for its exclusive use',
    )
    .option('--log <address>', "address of the log's server, such as https://daybook.example.com")
    .option(
      '--key <line|file>',
      "the log's verifier key, from its operator; twice during a key rotation",
      collect,
    )
    .option('--name <name>', 'name of this witness; required the first time')
    .option('--every <seconds>', 'poll interval in seconds', '10')
    .option('--once', 'poll once and exit, for cron')
    .option('--webhook <url>', 'URL that an alarm is also posted to, as JSON')
    .option(
      '--accept <size>',
      'after an alarm: continue from the checkpoint of this size, either the one cosigned last or the ' +
        'one in the alarm',
    )
    .action(async (options: Options, command: Command) => {
      const state = new WitnessState(options.state, options.name);
      try {
        await run(state, options, command);
      } finally {
        state.close();
      }
    });
}

async function run(state: WitnessState, options: Options, command: Command): Promise<void> {
  const { surroundings } = command;
  if (options.log === undefined)
    return print(
      command,
      { witness: state.signer.name, verifier_key: state.verifierKey },
      ({ verifier_key }) => verifier_key,
    );
  const everySecs = Number(options.every.replace(/s$/, ''));
  if (!(everySecs >= POLL_INTERVAL_MIN_S && everySecs <= POLL_INTERVAL_MAX_S))
    throw new StoreError(
      `--every must be a number of seconds from ${POLL_INTERVAL_MIN_S} to ${POLL_INTERVAL_MAX_S}`,
    );
  if (options.key === undefined)
    throw new StoreError(
      "--key is required: the log's verifier key, from its operator and not from the log's server",
    );
  const witness: Witness = {
    state,
    log: new LogClient(options.log),
    keys: readKeys(options.key, 'ed25519'),
  };
  const last = state.checkpoint();
  if (last !== null && !witness.keys.some(({ name }) => name === parseCheckpointNote(last).origin)) {
    throw new StoreError(
      `the witness in ${state.directory} follows ${parseCheckpointNote(last).origin}, and the given ` +
        'key is of another log: pass a key of that log, or use another directory',
    );
  }
  if (options.accept !== undefined) accept(witness, options.accept);
  const alarm = state.alarm() ?? raised(witness, detectRollback(witness));
  if (alarm) throw await sound(alarm, options, surroundings, state);
  if (options.once === true) {
    const result = await poll(witness);
    for (const warning of result.warnings) surroundings.err(`daybook: ${warning}\n`);
    if (result.alarm) throw await sound(raised(witness, result.alarm) as Alarm, options, surroundings, state);
    return print(
      command,
      {
        witness: state.signer.name,
        verifier_key: state.verifierKey,
        size: result.size,
        is_new: result.isNew,
      },
      ({ size, is_new }) =>
        `${is_new ? 'Cosigned' : 'No new checkpoint since'} size ${size} of ${witness.log.address}, ` +
        `as ${state.verifierKey}`,
    );
  }
  surroundings.out(
    `${state.signer.name} follows ${witness.log.address}, polling every ${everySecs} s. Its verifier ` +
      `key, for WITNESSES there: ${state.verifierKey}\n`,
  );
  throw await follow(witness, everySecs * 1_000, options, surroundings);
}

/** Polls until there is an alarm. */
async function follow(
  witness: Witness,
  everyMs: number,
  options: Options,
  surroundings: Surroundings,
): Promise<CommanderError> {
  const printedAt = new Map<string, number>();
  for (;;) {
    const result = await pollPatiently(witness);
    if (result.alarm)
      return sound(raised(witness, result.alarm) as Alarm, options, surroundings, witness.state);
    const now = performance.now();
    // Numbers in a warning change with each poll; it is still the same warning.
    for (const [key] of printedAt)
      if (!result.warnings.some((each) => kindOf(each) === key)) printedAt.delete(key);
    for (const warning of result.warnings) {
      const key = kindOf(warning);
      if (now - (printedAt.get(key) ?? -Infinity) < WARNING_REPEAT_MS) continue;
      printedAt.set(key, now);
      surroundings.err(`daybook: ${warning}\n`);
    }
    await wait(everyMs);
  }
}

const kindOf = (warning: string): string => warning.replace(/\d+/g, '');

async function pollPatiently(witness: Witness): Promise<PollResult> {
  try {
    return await poll(witness);
  } catch (error) {
    if (!(error instanceof LogUnavailableError)) throw error;
    return { size: 0, isNew: false, alarm: null, warnings: [error.message] };
  }
}

/** Stores an alarm with its evidence. From here on nothing is signed. */
function raised({ state }: Witness, alarm: Alarm | null): Alarm | null {
  if (alarm) state.raise(alarm);
  return alarm;
}

/** Reports an alarm on standard error and to the webhook. */
async function sound(
  alarm: Alarm,
  { webhook }: Options,
  { err }: Surroundings,
  state: WitnessState,
): Promise<CommanderError> {
  const { known } = alarm;
  const before =
    known === null ? 'nothing cosigned before' : `cosigned size ${parseCheckpointNote(known).size}`;
  err(
    `daybook: ALARM (${alarm.alarm}) ${alarm.log}: ${alarm.message}; ${before}, served ` +
      `${servedSize(alarm)}. This witness has ` +
      `stopped signing. The evidence is in ${state.directory}/alarm: keep it, and ask the log's ` +
      `operator. To continue after that: --accept <size>\n`,
  );
  if (webhook !== undefined)
    await post(webhook, alarm).catch(() => err('daybook: the alarm could not be sent to the webhook\n'));
  return new CommanderError(ALARM_EXIT, 'daybook.alarm', '');
}

function servedSize({ shown }: Alarm): string {
  try {
    return `size ${parseCheckpointNote(shown).size}`;
  } catch {
    return 'an invalid checkpoint';
  }
}

async function post(webhook: string, alarm: Alarm): Promise<void> {
  const reply = await fetch(webhook, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ type: 'witness.alarm', ...alarm }),
    signal: AbortSignal.timeout(WEBHOOK_TIMEOUT_MS),
  });
  await reply.body?.cancel();
  if (!reply.ok) throw new LogUnavailableError(`the webhook answered HTTP ${reply.status}`);
}

/**
 * Clears an alarm by an operator's decision.
 * @throws {StoreError} when the size matches neither checkpoint, or no known key has signed that one.
 */
function accept({ state, keys }: Witness, size: string): void {
  const alarm = state.alarm();
  if (alarm === null) throw new StoreError('there is no alarm to accept');
  try {
    const { checkpoint, note } = openCheckpoint(alarm.shown, [...keys, state.signer]);
    if (String(checkpoint.size) === size)
      return state.accept(cosign(note, keys, state.signer, Date.now()), Date.now());
  } catch (error) {
    if (!(error instanceof NoteError)) throw error;
  }
  if (alarm.known !== null && String(parseCheckpointNote(alarm.known).size) === size)
    return state.accept(null, Date.now());
  throw new StoreError(
    `no checkpoint of size ${size} to accept: neither the one cosigned last nor the one in the alarm ` +
      'has that size and the signature of a known key',
  );
}
