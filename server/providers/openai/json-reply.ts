import type { JsonReply } from '#server/providers/provider.ts';
import { asRecord } from '#server/wire/counts.ts';
import { ReplyRecord } from '#server/providers/openai/reply-record.ts';
import { scanObject, type Span, valueOf } from '#server/wire/json.ts';
import { providerText } from '#server/wire/reply-facts.ts';

const MEMBERS = ['usage', 'choices', 'error', 'object', 'id', 'model', 'service_tier', 'x_groq'];

/**
 * What a complete JSON reply of the convention says of itself; its bytes stay as they are. Pure.
 * @returns null when the bytes are not a JSON object, which no client could read either.
 */
export function parseJsonReply(bytes: Buffer): JsonReply | null {
  try {
    const { members } = scanObject(bytes, MEMBERS);
    const value = (name: string): unknown => {
      const span = members.get(name);
      return span && valueOf(bytes, span);
    };
    const choices = members.get('choices');
    const record = new ReplyRecord();
    record.state({ id: value('id'), model: value('model'), service_tier: value('service_tier') });
    const usage = value('usage');
    record.report(choices ? (usage ?? asRecord(value('x_groq'))?.['usage']) : withPrompt(usage));
    if (choices) record.facts.finishReason = finishReasonIn(bytes, choices);
    const { promptUsage, isImplausible, facts } = record;
    // Embeddings have no output to report.
    const whole = promptUsage && !choices ? { ...promptUsage, output: 0, reasoning: 0 } : null;
    return {
      bytes,
      usage: record.usage ?? whole,
      promptUsage,
      isImplausible,
      facts,
      outputBytes: choices ? choices.end - choices.start : 0,
      failed: choices ? endsInError(bytes, choices) : isError(bytes, members),
    };
  } catch {
    return null;
  }
}

/** A report with no more than a total, which is the prompt's where nothing is written. */
function withPrompt(usage: unknown): unknown {
  const report = asRecord(usage);
  if (!report || 'prompt_tokens' in report || 'input_tokens' in report) return usage;
  return 'total_tokens' in report ? { ...report, prompt_tokens: report['total_tokens'] } : usage;
}

/** The reason of the last choice: it stands behind the text, so that it is searched from the end. */
function finishReasonIn(bytes: Buffer, { start, end }: Span): string | null {
  const name = '"finish_reason"';
  const at = bytes.lastIndexOf(name, end);
  if (at < start) return null;
  const from = at + name.length;
  const value = FINISH_REASON.exec(bytes.toString('latin1', from, from + FINISH_REASON_BYTES_MAX));
  return providerText(value?.[1]);
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

const FINISH_REASON = /^\s*:\s*"([^"\\]*)"/;
const FINISH_REASON_BYTES_MAX = 160;
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
