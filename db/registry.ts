/** That something is in a {@link Registry}, to take it out again. */
export type Membership<T> = { readonly member: T; index: number };

/**
 * A set of open things, whose members come and go with each call.
 *
 * Not a `Set`, because calls in one outlive their end. A `Set` replaces its table as members come and go, and
 * the old table references the new one and its own last members. Once a table is in V8's old generation, it
 * keeps the next ones alive, with the calls in them, until the next full collection.
 */
export class Registry<T> {
  readonly #memberships: Membership<T>[] = [];

  get size(): number {
    return this.#memberships.length;
  }

  add(member: T): Membership<T> {
    const membership = { member, index: this.size };
    this.#memberships.push(membership);
    return membership;
  }

  /** Forgets a member; a second time does nothing. */
  delete(membership: Membership<T>): void {
    if (this.#memberships[membership.index] !== membership) return;
    const last = this.#memberships.pop() as Membership<T>;
    if (last === membership) return;
    this.#memberships[membership.index] = last;
    last.index = membership.index;
  }

  /** The members at this moment, in no order. */
  members(): T[] {
    return this.#memberships.map(({ member }) => member);
  }
}
