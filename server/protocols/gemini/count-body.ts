import { asRecord } from '#server/wire/counts.ts';
import { scanObject, valueOf } from '#server/wire/json.ts';

/**
 * The body of a `countTokens` for an upstream. A request within it names its model once more, which is
 * replaced where it has another name. Pure.
 * @param bytes a valid JSON object.
 */
export function geminiCountBody(bytes: Buffer, model: string): Buffer {
  const span = scanObject(bytes, ['generateContentRequest']).members.get('generateContentRequest');
  const request = span && asRecord(valueOf(bytes, span));
  if (!span || !request || request['model'] === `models/${model}`) return bytes;
  const replaced = JSON.stringify({ ...request, model: `models/${model}` });
  return Buffer.concat([bytes.subarray(0, span.start), Buffer.from(replaced), bytes.subarray(span.end)]);
}
