import { isUtf8 } from 'node:buffer';
import type { JsonReply } from '#server/providers/provider.ts';
import { asRecord } from '#server/wire/counts.ts';
import { ReplyRecord } from '#server/providers/openai/reply-record.ts';
import { PARSED_WHOLE_BYTES_MAX } from '#server/wire/bounds.ts';
import { JsonError, scanObject, type Span, valueOf } from '#server/wire/json.ts';
import { providerText } from '#server/wire/reply-facts.ts';

const MEMBERS = ['usage', 'choices', 'error', 'object', 'id', 'model', 'service_tier', 'x_groq'];

/** The members of a reply that are read. */
type Members = {
  id?: unknown;
  model?: unknown;
  service_tier?: unknown;
  usage?: unknown;
  x_groq?: unknown;
  error?: unknown;
  object?: unknown;
  choices: Choices | null;
};

/** The reason of the last choice that has one, whether any broke off, and the size of all. */
type Choices = { finishReason: string | null; hasError: boolean; bytes: () => number };

const NOTHING = (): number => 0;

/**
 * What a complete JSON reply of the convention says of itself; its bytes stay as they are. Pure.
 * @returns null when the bytes are not a JSON object, which no client could read either.
 */
export function parseJsonReply(bytes: Buffer): JsonReply | null {
  try {
    const text = bytes.length <= PARSED_WHOLE_BYTES_MAX ? bytes.toString('latin1') : null;
    const reply = text === null ? scan(bytes) : parseWhole(bytes, text);
    const { usage, choices } = reply;
    const record = new ReplyRecord();
    record.state(reply);
    record.report(choices ? (usage ?? asRecord(reply.x_groq)?.['usage']) : withPrompt(usage));
    if (choices) record.facts.finishReason = choices.finishReason;
    const { promptUsage, isImplausible, facts } = record;
    // Embeddings have no output to report.
    const whole = promptUsage && !choices ? { ...promptUsage, output: 0, reasoning: 0 } : null;
    return {
      bytes,
      text,
      usage: record.usage ?? whole,
      promptUsage,
      isImplausible,
      facts,
      outputBytes: choices?.bytes ?? NOTHING,
      failed: choices ? choices.hasError : isError(reply),
    };
  } catch {
    return null;
  }
}

/**
 * Parses a small reply: V8 takes half as long as the scan and the parsing of single members. A member that is
 * not ASCII reads differently in latin-1, and is of no use in either.
 */
function parseWhole(bytes: Buffer, text: string): Members {
  if (!isUtf8(bytes)) throw new JsonError('invalid', 'the bytes are not UTF-8');
  const reply = asRecord(JSON.parse(text));
  if (!reply) throw new JsonError('not_an_object', 'the document is not an object');
  const { id, model, service_tier, usage, x_groq, error, object } = reply;
  const choices = 'choices' in reply ? readChoices(reply['choices']) : null;
  return { id, model, service_tier, usage, x_groq, error, object, choices };
}

function readChoices(choices: unknown): Choices {
  let finishReason: string | null = null;
  let hasError = false;
  for (const choice of Array.isArray(choices) ? (choices as unknown[]) : []) {
    const reason = asRecord(choice)?.['finish_reason'];
    if (reason !== undefined) finishReason = providerText(reason);
    if (reason === 'error') hasError = true;
  }
  return { finishReason, hasError, bytes: () => JSON.stringify(choices).length };
}

/** Finds the same in a large reply, without building what the model has written. */
function scan(bytes: Buffer): Members {
  const { members } = scanObject(bytes, MEMBERS);
  const value = (name: string): unknown => {
    const span = members.get(name);
    return span && valueOf(bytes, span);
  };
  const choices = members.get('choices');
  return {
    id: value('id'),
    model: value('model'),
    service_tier: value('service_tier'),
    usage: value('usage'),
    x_groq: value('x_groq'),
    error: value('error'),
    object: value('object'),
    choices: choices
      ? {
          finishReason: finishReasonIn(bytes, choices),
          hasError: endsInError(bytes, choices),
          bytes: () => choices.end - choices.start,
        }
      : null,
  };
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
const isError = ({ error, object }: Members): boolean =>
  object === 'error' || asRecord(error) !== null || (typeof error === 'string' && error !== '');

const FINISH_REASON = /^\s*:\s*"([^"\\]*)"/;
const FINISH_REASON_BYTES_MAX = 160;

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
