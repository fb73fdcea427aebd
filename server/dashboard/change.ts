import type { Client } from 'pg';
import { ConflictError } from '#db/log/append.ts';
import type { ChangeGuard } from '#server/control/change-guard.ts';
import { Id } from '#db/events/parts.ts';
import type { Key } from '#db/fold/key.ts';
import type { Control } from '#server/control/control.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import type { Change } from '#server/contract/keys.ts';
import type { Caller } from '#server/sign-in/signed-in.ts';
import { ApiError } from '#server/errors/api-error.ts';

const NOT_FOUND = new ApiError('not_found');

/**
 * Makes a change on behalf of a caller and waits until this process has read its event, so that its next
 * replies include the change and a revoked key is rejected.
 */
export async function makeChange<T extends Change>(
  { control, relay: { readModel } }: Pick<Dashboard, 'control' | 'relay'>,
  { actor, role, guard }: Pick<Caller, 'actor' | 'role' | 'guard'>,
  use: (control: Control, client: Client) => Promise<T>,
): Promise<T | ApiError> {
  const work = guard === undefined ? use : guarded(guard, use);
  const changed = await control.change(actor, work, role === 'administrator' ? 'first' : 'ordinary');
  if (changed instanceof ApiError || changed.event === null) return changed;
  await readModel.untilPosition(changed.event.position);
  return changed;
}

/** The change under the conditions of its request. */
function guarded<T>(
  guard: ChangeGuard,
  use: (control: Control, client: Client) => Promise<T>,
): (control: Control, client: Client) => Promise<T> {
  return async (control, client) => {
    await control.guard(guard);
    try {
      return await use(control, client);
    } catch (error) {
      // Another process may have made the same change meanwhile.
      if (error instanceof ConflictError) await control.checkRepeat();
      throw error;
    }
  };
}

/** An id from the path. A malformed id is as unknown as an unused one. */
export function parseId(params: Readonly<Record<string, string>>, name: string): string | ApiError {
  const parsed = Id.safeParse(params[name]);
  return parsed.success ? parsed.data : NOT_FOUND;
}

/** The key that the path names. A member gets 404 for another account's key. */
export function findKey(
  { relay }: Pick<Dashboard, 'relay'>,
  { role, ownAccount }: Caller,
  params: Readonly<Record<string, string>>,
): Key | ApiError {
  const key = relay.readModel.key(params['key'] ?? '');
  return key && (role !== 'member' || key.account === ownAccount) ? key : NOT_FOUND;
}
