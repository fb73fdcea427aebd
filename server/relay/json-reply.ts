import type { Usage } from '#db/money.ts';
import { readUsage } from '#server/providers/openai.ts';
import { scanObject, valueOf } from '#server/relay/json.ts';

const MEMBERS = ['usage', 'choices', 'error'];

/** `failed`: an error object under a status that says success, as some providers send. */
export type JsonReply = { usage: Usage | null; choicesBytes: number; failed: boolean };

/**
 * What a complete JSON reply says of itself. Pure.
 * @returns null when the bytes are not a JSON object, which no client could read either.
 */
export function readJsonReply(bytes: Buffer): JsonReply | null {
  try {
    const { members } = scanObject(bytes, MEMBERS);
    const usage = members.get('usage');
    const choices = members.get('choices');
    const error = members.get('error');
    return {
      usage: usage ? readUsage(valueOf(bytes, usage)) : null,
      choicesBytes: choices ? choices.end - choices.start : 0,
      failed: !choices && error !== undefined && bytes[error.start] === 0x7b,
    };
  } catch {
    return null;
  }
}
