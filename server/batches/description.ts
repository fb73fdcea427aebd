import { STORED_CONTENT_BYTES_MAX } from '#db/stored/bounds.ts';
import { isStoredId } from '#server/stored/route-back.ts';
import { asRecord } from '#server/wire/counts.ts';

/** What a provider says of a file or a batch. Pure. */
export type Description = { id: string; content: string };

/** @param reply of the provider, without credentials. @returns null: it describes nothing with an id. */
export function readDescription(reply: Buffer): Description | null {
  const object = parseObject(reply);
  const id = object?.['id'];
  if (object === null || !isStoredId(id)) return null;
  return { id, content: contentOf(object) };
}

/** For lists: without what makes it too long. */
export function contentOf(object: Record<string, unknown>): string {
  const whole = JSON.stringify(object);
  if (Buffer.byteLength(whole) <= STORED_CONTENT_BYTES_MAX) return whole;
  const { id, object: kind, created_at, status, input_file_id, output_file_id, error_file_id } = object;
  return JSON.stringify({
    ...{ id, object: kind, created_at, status, input_file_id, output_file_id, error_file_id },
  });
}

export function parseObject(bytes: Buffer): Record<string, unknown> | null {
  try {
    return asRecord(JSON.parse(bytes.toString()));
  } catch {
    return null;
  }
}
