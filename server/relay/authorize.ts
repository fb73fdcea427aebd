import type { Key } from '#db/fold/key.ts';
import { Refusal } from '#server/errors.ts';
import type { ReadModel } from '#server/read-model.ts';

const SUSPENDED = new Refusal('account_disabled');

/** Whether the account behind a good key may call at all; null when it may. */
export function authorize(key: Key, readModel: ReadModel): Refusal | null {
  const account = readModel.account(key.account);
  return account?.state === 'active' ? null : SUSPENDED;
}
