/**
 * An idempotency key is a state machine. All servers share it: its row in daybook.idempotency_key is the
 * state, and each transition is one statement that applies in the state before it only.
 *
 *                claimed                 ended
 *     free ──────────────▶ running ──────────────▶ ended
 *      ▲                   │  │
 *      │     released      │  │ recovered, outcome unknown
 *      ├───────────────────┘  └─────────────────▶ lost
 *      │
 *      └── expired, from each of them
 *
 * - *free*: no request has claimed the key, or the one that did left no trace at an upstream.
 * - *running*: a request has claimed it. The claim is durable before the request is accepted, and the request
 *   is accepted before an upstream gets it.
 * - *ended*: the request has its settlement in the log. Its reply may be kept.
 * - *lost*: its server ended and its settlement is not in the log, so that nothing says whether an upstream
 *   has worked. It is never sent a second time.
 *
 * A key is released if the request was rejected before it was sent, or if no upstream can have worked on it.
 * When the instance of a running request is closed, its log decides: a request that was never accepted is
 * released, a settled one has ended without a reply, any other is lost.
 *
 * Invariant: between two times at which a key is free, at most one request is sent to an upstream.
 */
export type KeyState =
  | { kind: 'free' }
  | ({ kind: 'running' } & Claimed)
  | ({ kind: 'ended'; hasReply: boolean } & Claimed)
  | ({ kind: 'lost' } & Claimed);

/** The request that claimed a key, and its fingerprint. */
type Claimed = { request: string; fingerprint: string };

export type KeyEvent =
  | ({ type: 'claimed' } & Claimed)
  | { type: 'released'; request: string }
  | { type: 'ended'; request: string; isKept: boolean }
  /** The instance of a request was closed. `inLog`: the last event of the request that the instance wrote. */
  | { type: 'recovered'; request: string; inLog: 'nothing' | 'accepted' | 'settled' }
  /** The kept reply was erased, or is as old as replies are kept. */
  | { type: 'reply_deleted'; request: string }
  | { type: 'expired' };

const FREE: KeyState = { kind: 'free' };

/** The state after an event; the same state where the event doesn't apply in it. Pure. */
export function evolveKey(state: KeyState, event: KeyEvent): KeyState {
  if (event.type === 'expired') return FREE;
  if (event.type === 'claimed') {
    const { request, fingerprint } = event;
    return state.kind === 'free' ? { kind: 'running', request, fingerprint } : state;
  }
  if (state.kind === 'free' || state.request !== event.request) return state;
  const { request, fingerprint } = state;
  if (event.type === 'reply_deleted') return state.kind === 'ended' ? { ...state, hasReply: false } : state;
  if (state.kind !== 'running') return state;
  switch (event.type) {
    case 'released':
      return FREE;
    case 'ended':
      return { kind: 'ended', request, fingerprint, hasReply: event.isKept };
    case 'recovered':
      return recovered(state, event.inLog);
  }
}

function recovered(
  { request, fingerprint }: Claimed,
  inLog: Extract<KeyEvent, { type: 'recovered' }>['inLog'],
): KeyState {
  switch (inLog) {
    case 'nothing':
      return FREE;
    case 'accepted':
      return { kind: 'lost', request, fingerprint };
    case 'settled':
      return { kind: 'ended', request, fingerprint, hasReply: false };
  }
}

/** The answer to a request with a key. */
export type KeyAnswer =
  /** It claims the key, and is carried out. */
  | { kind: 'begin' }
  /** It gets the reply to the request that runs. */
  | { kind: 'join'; request: string }
  /** It gets the kept reply. */
  | { kind: 'replay'; request: string }
  /** The key belongs to another request. */
  | { kind: 'mismatch'; request: string }
  /** The request has ended, and its reply is not kept. */
  | { kind: 'no_reply'; request: string }
  /** Whether the request was carried out is unknown. */
  | { kind: 'unknown'; request: string };

/** Decides on a request with a key in this state. Pure. */
export function answerOf(state: KeyState, fingerprint: string): KeyAnswer {
  if (state.kind === 'free') return { kind: 'begin' };
  const { request } = state;
  if (state.fingerprint !== fingerprint) return { kind: 'mismatch', request };
  switch (state.kind) {
    case 'running':
      return { kind: 'join', request };
    case 'ended':
      return { kind: state.hasReply ? 'replay' : 'no_reply', request };
    case 'lost':
      return { kind: 'unknown', request };
  }
}
