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
 * - *ended*: the outcome is known, and no attempt is under way. The client may still be receiving the rest of
 *   its reply: until its connection has taken the last byte, or was closed, the call keeps its slot and
 *   memory.
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

/** @throws {IllegalTransition} */
export function enterCallState(from: CallState, to: CallState): CallState {
  assertTransition('call', CALL_TRANSITIONS, from, to);
  return to;
}

/**
 * One attempt of a call: the exchange with one upstream, from the request to the last byte of its reply.
 * `Attempt.run` sends the request and resolves, once, with the outcome. The attempt writes replies to
 * the client, but never an error before a reply: whether the client receives one, or another upstream takes
 * over, is the call's decision.
 *
 *     waiting ──▶ buffering ───▶ ended
 *        │  ├───▶ rejected ────▶ ended
 *        │  └───▶ streaming ───▶ ended
 *        └─────────────────────▶ ended
 *
 * - *waiting*: the request is sent, and no reply has been received; or its head has, and the gate is closed.
 * - *buffering*: a JSON reply is collected until it is complete, so that the client receives either a whole
 *   and valid document or a clean error.
 * - *rejected*: the body of an error reply is collected, to be reported in the relay's own words.
 * - *streaming*: SSE events are relayed as they are received. Once the head has been sent, an error can only
 *   be reported in-band, and the body then ends without `[DONE]`.
 * - *ended*: the outcome is resolved, and the exchange is aborted where it still ran.
 *
 * The head of a streamed reply is held back for a moment while another upstream could take over, since the
 * head may be all that is ever received.
 *
 * With overlapped accounting the gate is closed until the call is recorded: the upstream works meanwhile, but
 * its reply is paused behind its head.
 */
export type AttemptState = 'waiting' | 'buffering' | 'rejected' | 'streaming' | 'ended';

export const ATTEMPT_TRANSITIONS: Transitions<AttemptState> = {
  waiting: ['buffering', 'rejected', 'streaming', 'ended'],
  buffering: ['ended'],
  rejected: ['ended'],
  streaming: ['ended'],
  ended: [],
};

/** @throws {IllegalTransition} */
export function enterAttemptState(from: AttemptState, to: AttemptState): AttemptState {
  assertTransition('attempt', ATTEMPT_TRANSITIONS, from, to);
  return to;
}
