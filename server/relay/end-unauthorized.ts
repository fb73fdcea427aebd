import { authorize, authorizeModel } from '#server/access/authorize.ts';
import { checkKey } from '#server/access/authenticate.ts';
import type { Relay } from '#server/relay/relay.ts';

/**
 * Ends running calls that would not be let in any more: their key was revoked or restricted, their
 * account suspended, its plan changed. They are charged for the reply relayed by then.
 * @param accounts those whose terms, state or keys have changed.
 */
export function endUnauthorizedCalls(relay: Relay, accounts: ReadonlySet<string>): void {
  for (const call of relay.running.members()) {
    if (!accounts.has(call.key.account)) continue;
    const { context, model } = call;
    const key = relay.readModel.key(call.key.id) ?? call.key;
    const refusal =
      checkKey(key, relay.readModel.nowMs()) ??
      authorize(key, context, relay.readModel) ??
      (model === null ? null : authorizeModel(key, model, relay.readModel));
    if (refusal) call.fail(refusal.code, 'access_revoked');
  }
}
