import { ACCOUNT_LEVELS } from '#db/events/parts.ts';
import type { Account } from '#db/fold/account.ts';
import type { Key } from '#db/fold/key.ts';
import type { Plan } from '#db/fold/plan.ts';
import { isEnforced, type SubjectLimits } from '#db/limits/limits.ts';
import type { CallAttribution } from '#db/limits/subjects.ts';
import { type Access, joined, limitsFor } from '#server/read-model/access.ts';

/** Accounts, plans and compiled terms, as the read model has them. */
type Source = {
  account(id: string): Account | undefined;
  plan(name: string): Plan | undefined;
  accountAccess(account: Account): Access | null;
  keyAccess(key: Key): Access | null;
};

const NO_PARENTS: readonly string[] = [];
const NO_LIMITS: readonly SubjectLimits[] = [];

/** The limits that calls are charged to: those of their account, of its parents and of their key. */
export class ChargedLimits {
  readonly #source: Source;

  constructor(source: Source) {
    this.#source = source;
  }

  /** The parent of an account, and that one's. */
  parentsOf(account: string): readonly string[] {
    let parent = this.#source.account(account)?.parent ?? null;
    if (parent === null) return NO_PARENTS;
    const parents: string[] = [];
    // Two changes at the same moment may have made a circle.
    while (parent !== null && parents.length < ACCOUNT_LEVELS - 1) {
      if (parent === account || parents.includes(parent)) break;
      parents.push(parent);
      parent = this.#source.account(parent)?.parent ?? null;
    }
    return parents;
  }

  /**
   * The limits that a key's call is charged to. The `limits` of each are the same array until its terms
   * change.
   * @param call who it is for; undefined: only the limits of every call of the key.
   * @param parents absent: those of its account now.
   */
  of(key: Key, call?: CallAttribution, parents?: readonly string[]): readonly SubjectLimits[] {
    const subjects = this.ofAccount(key.account, call, parents);
    const ofKey = this.#source.keyAccess(key);
    return ofKey === null ? subjects : joined(subjects, limitsFor(ofKey, call));
  }

  /**
   * The same by the terms of an account and of its parents.
   * @param parents absent: its parents now.
   */
  ofAccount(
    id: string,
    call?: CallAttribution,
    parents: readonly string[] = this.parentsOf(id),
  ): readonly SubjectLimits[] {
    const own = this.#accessOf(id);
    let subjects = own === null ? NO_LIMITS : limitsFor(own, call);
    for (const parent of parents) {
      const access = this.#accessOf(parent);
      if (access !== null) subjects = joined(subjects, limitsFor(access, call));
    }
    return subjects;
  }

  /** Whether an enforced limit of a key's calls counts end users, sessions or tags apart. */
  isApart(key: Key): boolean {
    const accesses = [key.account, ...this.parentsOf(key.account)].map((id) => this.#accessOf(id));
    return [...accesses, this.#source.keyAccess(key)].some((each) =>
      each?.limitsPer.some(({ limits }) => limits.some(isEnforced)),
    );
  }

  /**
   * The position of the newest control event that a key's terms depend on, including those of its account, of
   * that one's parents and of their plans; 0 if there is no such event. It is recorded even when nothing is
   * limited, so that the log shows that a call was admitted after a limit was removed.
   */
  termsPosition(key: Key): number {
    let newest = Math.max(key.termsPosition, this.#termsPositionOf(key.account));
    for (const parent of this.parentsOf(key.account))
      newest = Math.max(newest, this.#termsPositionOf(parent));
    return newest;
  }

  #accessOf(id: string): Access | null {
    const account = this.#source.account(id);
    return account === undefined ? null : this.#source.accountAccess(account);
  }

  #termsPositionOf(id: string): number {
    const account = this.#source.account(id);
    const plan = account?.plan == null ? undefined : this.#source.plan(account.plan);
    return Math.max(account?.termsPosition ?? 0, plan?.position ?? 0);
  }
}
