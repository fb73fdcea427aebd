import { readParts } from '#server/protocols/chat/read-content.ts';
import type { AssistantPart, Reasoning, ReportLoss, ToolCall } from '#server/protocols/conversation.ts';
import {
  arrayAt,
  recordAt,
  stringAt,
  stringOrNull,
  textOf,
  Untranslatable,
} from '#server/protocols/fields.ts';
import { asRecord } from '#server/wire/counts.ts';

/** An assistant's message of a chat completion: its thoughts first, then its text, then its calls. Pure. */

export function readAssistant(
  message: Record<string, unknown>,
  at: string,
  report: ReportLoss,
): AssistantPart[] {
  if (asRecord(message['function_call']))
    throw new Untranslatable(`${at}.function_call`, 'must be sent as "tool_calls"');
  if (asRecord(message['audio']))
    throw new Untranslatable(`${at}.audio`, "refers to audio that this model's provider doesn't store");
  const texts = readParts(message['content'], `${at}.content`, report).filter((part) => part.type === 'text');
  const text = texts.map((part) => part.text).join('') + (stringOrNull(message['refusal']) ?? '');
  return [
    ...reasoningOf(message),
    ...(text === '' ? [] : [textOf(text)]),
    ...arrayAt(message['tool_calls'] ?? [], `${at}.tool_calls`).map((call, index) =>
      callOf(call, `${at}.tool_calls[${index}]`),
    ),
  ];
}

function callOf(value: unknown, at: string): ToolCall {
  const call = recordAt(value, at);
  const id = stringAt(call, 'id', at);
  const custom = asRecord(call['custom']);
  if (custom) {
    const [name, input] = [stringAt(custom, 'name', at), stringAt(custom, 'input', at)];
    return { type: 'tool_call', id, name, input, isCustom: true };
  }
  const called = recordAt(call['function'], `${at}.function`);
  const name = stringAt(called, 'name', `${at}.function`);
  return { type: 'tool_call', id, name, input: inputOf(called['arguments'], at), isCustom: false };
}

/** @throws {Untranslatable} for arguments that other protocols can't have. */
function inputOf(value: unknown, at: string): string {
  const text = (stringOrNull(value) ?? '').trim();
  if (text === '') return '{}';
  try {
    if (asRecord(JSON.parse(text))) return text;
  } catch {
    // Reported below.
  }
  throw new Untranslatable(`${at}.function.arguments`, 'must be a string that holds a JSON object');
}

/** With signatures in `reasoning_details`, whole or in the fragments of a stream, else as text. */
function reasoningOf(message: Record<string, unknown>): Reasoning[] {
  const details = message['reasoning_details'];
  const text = stringOrNull(message['reasoning_content']) ?? stringOrNull(message['reasoning']);
  const found = Array.isArray(details) ? detailsOf(details as unknown[]) : [];
  return found.length > 0 || !text ? found : [{ type: 'reasoning', text, signature: null }];
}

function detailsOf(details: readonly unknown[]): Reasoning[] {
  const found: Reasoning[] = [];
  let index: unknown;
  for (const value of details) {
    const detail = asRecord(value);
    const data = stringOrNull(detail?.['data']);
    if (detail?.['type'] === 'reasoning.encrypted' && data !== null)
      found.push({ type: 'redacted_reasoning', data });
    if (detail?.['type'] !== 'reasoning.text') continue;
    const last = found.at(-1);
    const [text, signature] = [stringOrNull(detail['text']) ?? '', stringOrNull(detail['signature'])];
    // Fragments of one thought have its index; a signature ends it.
    if (last?.type === 'reasoning' && last.signature === null && index === detail['index']) {
      last.text += text;
      last.signature = signature;
    } else found.push({ type: 'reasoning', text, signature });
    index = detail['index'];
  }
  return found;
}
