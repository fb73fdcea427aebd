/** A command that can't be carried out in the state it found. The message is for its sender. */
export class DecisionError extends Error {
  override name = 'DecisionError';
  readonly code:
    | 'not_found'
    | 'already_exists'
    | 'already_done'
    | 'not_allowed'
    | 'precondition_failed'
    | 'idempotency_key_reused'
    | 'invalid'
    | 'relay_outdated';
  constructor(code: DecisionError['code'], message: string) {
    super(message);
    this.code = code;
  }
}
