import type { Usage } from '#db/money.ts';
import { parseJsonReply } from '#server/providers/openai/json-reply.ts';
import type { JsonReply } from '#server/providers/provider.ts';

/** How an image is in the reply: as bytes, or by its address. */
const FORMS = ['"b64_json"', '"url"'];
const NO_TOKENS: Usage = { input: 0, cached: 0, output: 0, reasoning: 0 };

/**
 * What a reply with generated images says of itself: its images beside the tokens that it reports. Models
 * with a price per image report none.
 */
export function parseImagesReply(bytes: Buffer): JsonReply | null {
  const reply = parseJsonReply(bytes);
  if (reply === null || reply.failed || reply.isImplausible) return reply;
  const images = Math.max(...FORMS.map((form) => countOf(bytes, form)));
  if (images === 0) return reply;
  const usage = reply.usage ?? NO_TOKENS;
  return { ...reply, usage: { ...usage, details: { ...usage.details, images } } };
}

/** Within a text of the reply each quote has a backslash, so that only names are counted. */
function countOf(bytes: Buffer, name: string): number {
  let count = 0;
  for (let at = bytes.indexOf(name); at >= 0; at = bytes.indexOf(name, at + name.length)) count++;
  return count;
}
