import type { Placed } from '#db/events/events.ts';
import { isAccountEvent, isPlanEvent } from '#db/events/subjects.ts';
import { type Account, accountTerms, evolveAccount } from '#db/fold/account.ts';
import { evolvePlan, type Plan } from '#db/fold/plan.ts';

/**
 * Since when an account is prepaid. A call is charged to the balance if the terms that it was admitted by are
 * prepaid; its events name the position of these terms. Pure.
 */
export class PrepaidTimeline {
  readonly #id: string;
  #account: Account | undefined;
  readonly #plans = new Map<string, Plan>();
  /** In the order of positions. */
  readonly #changes: { position: number; isPrepaid: boolean }[] = [];
  #toppedUp = 0;

  constructor(account: string) {
    this.#id = account;
  }

  /** Adds a control event of the account or of a plan, in the order of the log. Others are ignored. */
  apply(placed: Placed): void {
    const { event, position } = placed;
    if (placed.version === null) return;
    const place = { at: placed.at, position, version: placed.version };
    if (isPlanEvent(event)) {
      const plan = evolvePlan(this.#plans.get(event.plan), { event, ...place });
      if (plan) this.#plans.set(event.plan, plan);
    } else if (isAccountEvent(event) && event.account === this.#id) {
      this.#account = evolveAccount(this.#account, { event, ...place });
      if (event.type === 'account.topped_up') this.#toppedUp++;
    } else return;
    const isPrepaid = this.#isPrepaidNow();
    if (isPrepaid !== (this.#changes.at(-1)?.isPrepaid ?? false)) this.#changes.push({ position, isPrepaid });
  }

  #isPrepaidNow(): boolean {
    const account = this.#account;
    if (account === undefined) return false;
    const plan = account.plan === null ? undefined : this.#plans.get(account.plan);
    return accountTerms(account, plan).prepaid === true;
  }

  /** Whether a call is charged to the balance. @param termsPosition that its events name. */
  isCharged(termsPosition: number | undefined): boolean {
    if (termsPosition === undefined) return false;
    return this.#changes.findLast(({ position }) => position <= termsPosition)?.isPrepaid ?? false;
  }

  /** The positions of the terms by which calls are charged to the balance, as an `int8multirange`. */
  get chargedTerms(): string {
    const ranges = this.#changes.flatMap(({ position, isPrepaid }, index) =>
      isPrepaid ? [`[${position},${this.#changes[index + 1]?.position ?? ''})`] : [],
    );
    return `{${ranges.join(',')}}`;
  }

  /** The first position from which the account was prepaid; null: never. */
  get firstPosition(): number | null {
    return this.#changes[0]?.position ?? null;
  }

  /** Whether the account was ever prepaid or topped up. */
  get hasBalance(): boolean {
    return this.#changes.length > 0 || this.#toppedUp > 0;
  }
}
