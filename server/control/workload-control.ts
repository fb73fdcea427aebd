import type { WorkloadTerms } from '#db/events/identity/workload-events.ts';
import type { ControlAppend } from '#db/log/append.ts';
import { publicId } from '#db/ids.ts';
import type { Change } from '#server/control/change.ts';
import { UNCHANGED } from '#server/control/change.ts';
import type { Control } from '#server/control/control.ts';
import { requireAccount } from '#server/decide/account.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { countKeys, revokeKey } from '#server/decide/key.ts';
import { addWorkload, changeWorkload, removeWorkload } from '#server/decide/workload.ts';
import { createSecret, digestSecret } from '#server/secrets/key-secret.ts';
import { checkIssuer } from '#server/sign-in/oidc/issuer.ts';

/** Shown in place of the last characters of a secret: the key has none. */
const NO_SECRET = '----';

/** Changes of workloads, which exchange tokens for short-lived keys. */
export class WorkloadControl {
  readonly #control: Control;

  constructor(control: Control) {
    this.#control = control;
  }

  /**
   * Adds a workload with its key, or replaces its terms.
   * @param account its id; a workload's can't be changed.
   * @throws {DecisionError} when the terms are invalid, or there is no such account.
   */
  async configure(
    pepper: Buffer,
    name: string,
    { account, terms }: { account: string; terms: WorkloadTerms },
  ): Promise<Change> {
    const model = await this.#control.load();
    const { actor } = this.#control;
    const { workloads } = model;
    checkIssuer(terms);
    requireAccount(model.account(account), account);
    const version = workloads.versionOf(name) + 1;
    const known = workloads.get(name);
    if (known) {
      const event = changeWorkload(known, { account, terms, actor });
      return event === null ? UNCHANGED : this.#append([{ event, version }]);
    }
    const key = publicId();
    const now = new Date(model.nowMs());
    const [created, configured] = addWorkload(
      workloads.active,
      {
        name,
        account,
        key,
        // The plaintext is dropped here.
        secret: { digest: digestSecret(pepper, createSecret(key)), last4: NO_SECRET },
        existing: countKeys(model.keysOf(account), now),
        terms,
        actor,
      },
      now,
    );
    return this.#append([
      { event: created, version: 1 },
      { event: configured, version },
    ]);
  }

  /** Removes a workload and revokes its key, so that its short-lived keys end with it. */
  async remove(name: string): Promise<Change> {
    const model = await this.#control.load();
    const workload = model.workloads.get(name);
    if (!workload) throw new DecisionError('not_found', `There is no workload "${name}".`);
    const { actor } = this.#control;
    const key = model.key(workload.key);
    const revoked = key && revokeKey(key, actor);
    return this.#append([
      ...(key && revoked ? [{ event: revoked, version: key.version + 1 }] : []),
      { event: removeWorkload(workload, actor), version: workload.version + 1 },
    ]);
  }

  async #append(appends: readonly ControlAppend[]): Promise<Change> {
    const type = appends.at(-1)?.event.type ?? '';
    return { event: { type, position: await this.#control.append(appends) } };
  }
}
