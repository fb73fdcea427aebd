/** For each state, the states that may follow. */
export type Transitions<State extends string> = Readonly<Record<State, readonly State[]>>;

/** A mistake of ours: a state was to follow that can't. */
export class IllegalTransition extends Error {
  override name = 'IllegalTransition';
}

/** @throws {IllegalTransition} */
export function assertTransition<State extends string>(
  subject: string,
  transitions: Transitions<State>,
  from: State,
  to: State,
): void {
  if (!transitions[from].includes(to))
    throw new IllegalTransition(`${subject}: illegal transition from ${from} to ${to}`);
}

/**
 * A call is a state machine. `Call.run` drives it from its admission to its settlement:
 *
 *     recording ──▶ attempting ◀──▶ waiting
 *         │          │      │          │
 *         │          ▼      │          │
 *         │      streaming  │          │
 *         │          │      │          │
 *         └──────────┴──▶ ended ◀──────┘ ──▶ settled
 *
 * - *recording*: `request.accepted` is being written to the log. Nothing is sent to an upstream.
 * - *attempting*: one attempt runs, and the client has received nothing. If the attempt fails, the
 *   next one begins at once (attempting again) or after a pause (waiting), as `AttemptSequence`
 *   decides.
 * - *waiting*: the backoff before the same upstream is retried.
 * - *streaming*: the head of a streamed reply has been sent to the client. No other upstream can take over.
 * - *ended*: the outcome is known, and nothing is under way any more.
 * - *settled*: the settlement has been handed to the log; or the call was never recorded, and its
 *   reservation is released.
 *
 * With overlapped accounting the call is attempted while it is being recorded: its state is attempting, and
 * the attempt's gate stays closed, so that no byte reaches the client before the call is recorded. A call
 * that ends meanwhile stays in *ended* until then, its rejection unsent.
 *
 * Invariants:
 * - No byte of a reply, not even an error, is sent to the client before the call is recorded; only that it
 *   could not be recorded is.
 * - At most one attempt runs at a time, and none begins once the client has received a byte.
 * - Each recorded call is settled exactly once, after it was recorded. Its reservation becomes its usage
 *   then.
 * - The body's memory is released when a streamed reply begins, at the latest with the settlement. No
 *   attempt may read it afterwards.
 *
 * The client disconnecting, deadlines, shutdown, fencing and revoked keys can end a call in every state
 * before *ended*. An illegal transition is a mistake of ours: run() aborts the attempt, settles the call
 * as `internal_error` and throws, so that it is logged.
 */
export type CallState = 'recording' | 'attempting' | 'waiting' | 'streaming' | 'ended' | 'settled';

export const CALL_TRANSITIONS: Transitions<CallState> = {
  recording: ['attempting', 'ended'],
  attempting: ['attempting', 'waiting', 'streaming', 'ended'],
  waiting: ['attempting', 'ended'],
  streaming: ['ended'],
  ended: ['settled'],
  settled: [],
};
