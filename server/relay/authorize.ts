import { Refusal } from '#server/errors.ts';
import type { LiveKey, ReadModel } from '#server/read-model.ts';

const SUSPENDED = new Refusal('account_disabled');

/** Whether the account behind a good key may call at all; null when it may. */
export function authorize(key: LiveKey, readModel: ReadModel): Refusal | null {
  const account = readModel.account(key.account);
  return account?.state === 'active' ? null : SUSPENDED;
}
