import { setTimeout as wait } from 'node:timers/promises';
import { CommanderError } from 'commander';
import { readKeys } from '#db/audit/commands/verifier-keys.ts';
import { cosign } from '#db/audit/witness/witness.ts';
import { LogAwayError, WitnessedLog } from '#db/audit/witness/witness-log.ts';
import { look, type Looked, rolledBack, type Witness } from '#db/audit/witness/witness-poll.ts';
import { type Alarm, checkpointIn, WitnessState } from '#db/audit/witness/witness-state.ts';
import type { Command, Surroundings } from '#db/command-line/command.ts';
import { print, withJson } from '#db/command-line/print.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { NoteError } from '#db/tlog/note.ts';
import { openCheckpoint } from '#db/tlog/checkpoint.ts';

type Options = {
  log?: string;
  key: string[];
  state: string;
  name?: string;
  every: string;
  once?: boolean;
  webhook?: string;
  accept?: string;
};

/** What makes a watcher of processes tell an alarm from a log that is merely away. */
const ALARM_EXIT = 2;
/** What goes on is said again after so long. */
const SAID_EVERY_MS = 600_000;
const WEBHOOK_TIMEOUT_MS = 10_000;
const EVERY_MIN_S = 1;
const EVERY_MAX_S = 3_600;

const more = (value: string, before: string[]): string[] => [...before, value];

/** `daybook witness`: follows a log from another machine, and signs that it has only grown. */
export function witnessCommand(program: Command): void {
  withJson(program.command('witness'))
    .description(
      "follow a log from another machine and sign that it has only grown; needs no database. Without --log it prints this witness's key, for the log's WITNESSES. Exits with 2 on an alarm",
    )
    .requiredOption(
      '--state <directory>',
      "where this witness keeps its key and what it has signed; nobody else's place",
    )
    .option('--log <address>', "the log's server, such as https://daybook.example.com")
    .option(
      '--key <line|file>',
      "the log's verifier key, from its operator; twice while one takes the other's place",
      more,
      [],
    )
    .option('--name <name>', 'the name of this witness, the first time')
    .option('--every <seconds>', 'how often to look', '10')
    .option('--once', 'look once, for cron')
    .option('--webhook <url>', 'where an alarm is posted as JSON besides')
    .option(
      '--accept <size>',
      'after an alarm: go on from the checkpoint of this size, the one that was signed last or the one that the alarm shows',
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
  if (!(everySecs >= EVERY_MIN_S && everySecs <= EVERY_MAX_S))
    throw new StoreError(`--every is a number of seconds from ${EVERY_MIN_S} to ${EVERY_MAX_S}`);
  if (options.key.length === 0)
    throw new StoreError(
      "--key is needed: the log's verifier key, as its operator gives it, not as the log's server does",
    );
  const witness: Witness = {
    state,
    log: new WitnessedLog(options.log),
    keys: readKeys(options.key, 'ed25519'),
  };
  const kept = state.checkpoint();
  if (kept !== null && !witness.keys.some(({ name }) => name === checkpointIn(kept).origin)) {
    throw new StoreError(
      `the witness in ${state.directory} follows ${checkpointIn(kept).origin}, and the key is of another log: name its key besides, or take another directory`,
    );
  }
  if (options.accept !== undefined) accept(witness, options.accept);
  const standing = state.alarm() ?? raised(witness, rolledBack(witness));
  if (standing) throw await sound(standing, options, surroundings, state);
  if (options.once === true) {
    const looked = await look(witness);
    for (const complaint of looked.complaints) surroundings.err(`daybook: ${complaint}\n`);
    if (looked.alarm) throw await sound(raised(witness, looked.alarm) as Alarm, options, surroundings, state);
    return print(
      command,
      {
        witness: state.signer.name,
        verifier_key: state.verifierKey,
        size: looked.size,
        is_new: looked.isNew,
      },
      ({ size, is_new }) =>
        `${is_new ? 'Signed' : 'Nothing new since'} ${size} events of ${witness.log.address}, as ${state.verifierKey}`,
    );
  }
  surroundings.out(
    `${state.signer.name} follows ${witness.log.address}, every ${everySecs} s. Its key, for WITNESSES there: ${state.verifierKey}\n`,
  );
  throw await follow(witness, everySecs * 1_000, options, surroundings);
}

/** Looks again and again, until there is an alarm. */
async function follow(
  witness: Witness,
  everyMs: number,
  options: Options,
  surroundings: Surroundings,
): Promise<CommanderError> {
  const said = new Map<string, number>();
  for (;;) {
    const looked = await lookPatiently(witness);
    if (looked.alarm)
      return sound(raised(witness, looked.alarm) as Alarm, options, surroundings, witness.state);
    const now = performance.now();
    // Figures in a line change with each look, and it is the same complaint all the same.
    for (const [key] of said) if (!looked.complaints.some((each) => kindOf(each) === key)) said.delete(key);
    for (const complaint of looked.complaints) {
      const key = kindOf(complaint);
      if (now - (said.get(key) ?? -Infinity) < SAID_EVERY_MS) continue;
      said.set(key, now);
      surroundings.err(`daybook: ${complaint}\n`);
    }
    await wait(everyMs);
  }
}

const kindOf = (complaint: string): string => complaint.replace(/\d+/g, '');

async function lookPatiently(witness: Witness): Promise<Looked> {
  try {
    return await look(witness);
  } catch (error) {
    if (!(error instanceof LogAwayError)) throw error;
    return { size: 0, isNew: false, alarm: null, complaints: [error.message] };
  }
}

/** Puts an alarm down with its evidence; from here on nothing is signed. */
function raised({ state }: Witness, alarm: Alarm | null): Alarm | null {
  if (alarm) state.raise(alarm);
  return alarm;
}

/** Says it as loud as a program can. */
async function sound(
  alarm: Alarm,
  { webhook }: Options,
  { err }: Surroundings,
  state: WitnessState,
): Promise<CommanderError> {
  const sizes = `${alarm.known === null ? 'nothing was signed before' : `signed up to ${checkpointIn(alarm.known).size}`}, shown ${shownSize(alarm)}`;
  err(
    `daybook: ALARM (${alarm.alarm}) ${alarm.log}: ${alarm.message}; ${sizes}. Nothing is signed any more. The evidence is in ${state.directory}/alarm: keep it, and ask the operator. To go on after that: --accept <size>\n`,
  );
  if (webhook !== undefined)
    await post(webhook, alarm).catch(() => err('daybook: the webhook could not be told of the alarm\n'));
  return new CommanderError(ALARM_EXIT, 'daybook.alarm', '');
}

function shownSize({ shown }: Alarm): string {
  try {
    return `up to ${checkpointIn(shown).size}`;
  } catch {
    return 'is no checkpoint';
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
  if (!reply.ok) throw new LogAwayError(`the webhook answers ${reply.status}`);
}

/**
 * What a person has decided after an alarm. @throws {StoreError} when the size is of neither checkpoint, or
 * no known key has signed it.
 */
function accept({ state, keys }: Witness, size: string): void {
  const alarm = state.alarm();
  if (alarm === null) throw new StoreError('there is no alarm, and so nothing to accept');
  try {
    const { checkpoint, note } = openCheckpoint(alarm.shown, [...keys, state.signer]);
    if (String(checkpoint.size) === size)
      return state.accept(cosign(note, keys, state.signer, Date.now()), Date.now());
  } catch (error) {
    if (!(error instanceof NoteError)) throw error;
  }
  if (alarm.known !== null && String(checkpointIn(alarm.known).size) === size)
    return state.accept(null, Date.now());
  throw new StoreError(
    `neither what was signed last nor what the alarm shows is a checkpoint of ${size} events that a known key has signed`,
  );
}
