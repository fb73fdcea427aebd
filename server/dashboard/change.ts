import type { Client } from 'pg';
import { Id } from '#db/events/parts.ts';
import type { Key } from '#db/fold/key.ts';
import type { Control } from '#server/control/control.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import type { Change } from '#server/contract/keys.ts';
import type { SignedIn } from '#server/sign-in/signed-in.ts';
import { ApiError } from '#server/errors/api-error.ts';

const NOT_FOUND = new ApiError('not_found');

/**
 * Makes a change for somebody who is signed in, and waits until this process has heard of it: what
 * it answers next is with the change, and a key that was revoked is refused.
 */
export async function makeChange<T extends Change>(
  { control, relay: { readModel } }: Pick<Dashboard, 'control' | 'relay'>,
  { member }: SignedIn,
  use: (control: Control, client: Client) => Promise<T>,
): Promise<T | ApiError> {
  const changed = await control.change(
    `member/${member.id}`,
    use,
    member.role === 'administrator' ? 'first' : 'ordinary',
  );
  if (changed instanceof ApiError || changed.event === null) return changed;
  await readModel.heard(changed.event.position);
  return changed;
}

/** An id of a route. What can't be one is as unknown as one that never was. */
export function parseId(params: Readonly<Record<string, string>>, name: string): string | ApiError {
  const parsed = Id.safeParse(params[name]);
  return parsed.success ? parsed.data : NOT_FOUND;
}

/**
 * The key that a route names, as far as somebody may know of it: another account's looks like none to a
 * member.
 */
export function findKey(
  { relay }: Pick<Dashboard, 'relay'>,
  { member }: SignedIn,
  params: Readonly<Record<string, string>>,
): Key | ApiError {
  const key = relay.readModel.key(params['key'] ?? '');
  return key && (member.role !== 'member' || key.account === member.account) ? key : NOT_FOUND;
}
