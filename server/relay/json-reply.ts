import { readUsage, type Usage } from '#server/providers/openai.ts';
import { scanObject, valueOf } from '#server/relay/json.ts';

const MEMBERS = new Set(['usage', 'choices']);

/** A token is about four bytes of text. */
const BYTES_PER_TOKEN = 4;

/**
 * What a complete JSON reply says of itself. Pure.
 * @returns null when the bytes are not a JSON object, which no client could read either.
 */
export function readJsonReply(bytes: Buffer): { usage: Usage | null; countedTokens: number } | null {
  try {
    const { members } = scanObject(bytes, MEMBERS);
    const usage = members.get('usage');
    const choices = members.get('choices');
    return {
      usage: usage ? readUsage(valueOf(bytes, usage)) : null,
      countedTokens: choices ? Math.ceil((choices.end - choices.start) / BYTES_PER_TOKEN) : 0,
    };
  } catch {
    return null;
  }
}
