import { ModelName } from '#db/events/parts.ts';
import type { UpstreamConnectionPool } from '#server/upstreams/connection-pool.ts';
import { MODEL_LIST_BYTES_MAX } from '#server/upstreams/bounds.ts';

/**
 * The models that an upstream says it has, asked by one of its lines.
 * @throws {Error} in a few words, when it can't be reached or has no such list.
 */
export async function listedModels(line: UpstreamConnectionPool, timeoutMs: number): Promise<string[]> {
  const reply = (await line.getModels(timeoutMs, MODEL_LIST_BYTES_MAX)) as { data?: unknown } | null;
  if (!Array.isArray(reply?.data)) throw new Error('its list of models is none');
  return reply.data
    .map((entry: unknown) => (entry as { id?: unknown } | null)?.id)
    .filter((id): id is string => ModelName.safeParse(id).success);
}
