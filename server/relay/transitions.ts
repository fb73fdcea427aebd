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
