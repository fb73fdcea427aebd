import type { JsonReply } from '#server/providers/provider.ts';
import { parsePromptUsage, parseUsage } from '#server/providers/openai/usage.ts';
import { scanObject, type Span, valueOf } from '#server/wire/json.ts';

const MEMBERS = ['usage', 'choices', 'error', 'object'];

/**
 * What a complete JSON reply of the convention says of itself; its bytes stay as they are. Pure.
 * @returns null when the bytes are not a JSON object, which no client could read either.
 */
export function parseJsonReply(bytes: Buffer): JsonReply | null {
  try {
    const { members } = scanObject(bytes, MEMBERS);
    const usage = members.get('usage');
    const choices = members.get('choices');
    const report = usage ? valueOf(bytes, usage) : null;
    const reported = parseUsage(report);
    const promptUsage = reported ? null : parsePromptUsage(report);
    // Embeddings have no output to report.
    const whole = promptUsage && !choices ? { ...promptUsage, output: 0, reasoning: 0 } : null;
    return {
      bytes,
      usage: reported ?? whole,
      promptUsage,
      outputBytes: choices ? choices.end - choices.start : 0,
      failed: choices ? endsInError(bytes, choices) : isError(bytes, members),
    };
  } catch {
    return null;
  }
}

/** An error in place of choices: an object, its text alone, or the whole reply as an object named so. */
function isError(bytes: Buffer, members: ReadonlyMap<string, Span>): boolean {
  const error = members.get('error');
  const object = members.get('object');
  if (object && valueOf(bytes, object) === 'error') return true;
  return (
    error !== undefined &&
    (bytes[error.start] === OPEN_BRACE || (bytes[error.start] === QUOTE && error.end - error.start > 2))
  );
}

const OPEN_BRACE = 0x7b;
const QUOTE = 0x22;

/**
 * Whether a choice says that it broke off. No text can hold the word in bare quotes, so it is mostly not
 * there at all.
 */
function endsInError(bytes: Buffer, { start, end }: Span): boolean {
  const at = bytes.indexOf('"error"', start);
  if (at < 0 || at >= end) return false;
  const choices = JSON.parse(bytes.toString('utf8', start, end)) as unknown;
  return (
    Array.isArray(choices) &&
    choices.some((choice: { finish_reason?: unknown } | null) => choice?.finish_reason === 'error')
  );
}
