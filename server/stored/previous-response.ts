import { ApiError } from '#server/errors/api-error.ts';
import { isStoreFault } from '#server/errors/store-fault.ts';
import type { Relay } from '#server/relay/relay.ts';
import { isStoredId } from '#server/stored/route-back.ts';
import type { UpstreamConnectionPool } from '#server/upstreams/connection-pool.ts';
import type { Target } from '#server/upstreams/target.ts';

/** A target of a call, and the credential of its upstream that holds what the call continues. */
export type Holder = { target: Target; pool: UpstreamConnectionPool };

/**
 * The one target of a call that continues a stored response: the upstream and credential that hold it. The
 * provider would continue a response of any account for which it has the same credential.
 * @param targets of the call's model. Where none of them stores responses, the id means nothing.
 * @returns null: the upstream rejects the id.
 */
export async function findHolder(
  { routeBack }: Pick<Relay, 'routeBack'>,
  account: string,
  id: string,
  targets: readonly Target[],
): Promise<Holder | ApiError | null> {
  if (!targets.some(({ upstream }) => upstream.routes.has('/v1/responses'))) return null;
  try {
    const place = isStoredId(id) ? await routeBack.find({ account, id }, 'response') : null;
    const target = targets.find(({ upstream }) => upstream.name === place?.upstream);
    const pool = target?.upstream.pools.find(({ credential }) => credential === place?.credential);
    if (target && pool) return { target, pool };
    return new ApiError('previous_response_not_found', { param: 'previous_response_id' });
  } catch (error) {
    if (!isStoreFault(error)) throw error;
    return new ApiError('store_unavailable');
  }
}
