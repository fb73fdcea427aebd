import { ModelName } from '#db/event-parts.ts';
import type { Upstream } from '#server/upstreams/upstream.ts';

const LIST_BYTES_MAX = 4 * 1024 * 1024;

/**
 * The models that an upstream says it has.
 * @throws {Error} in a few words, when it can't be reached or has no such list.
 */
export async function listedModels({ lines }: Upstream, timeoutMs: number): Promise<string[]> {
  const reply = (await lines[0]?.getModels(timeoutMs, LIST_BYTES_MAX)) as { data?: unknown } | null | undefined;
  if (!Array.isArray(reply?.data)) throw new Error('its list of models is none');
  return reply.data.map((entry: unknown) => (entry as { id?: unknown } | null)?.id).filter((id): id is string => ModelName.safeParse(id).success);
}
