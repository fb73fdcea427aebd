import { isRecord } from '#server/providers/anthropic/content.ts';
import { objectOf } from '#server/wire/raw-json.ts';
import { UnsupportedField } from '#server/providers/anthropic/unsupported-field.ts';
import { scanObject } from '#server/wire/json.ts';

/** Tool calls of the assistant that a client sends back. Pure. */

/**
 * A tool call's id, as JSON. Other providers write signs into theirs that Anthropic refuses; a
 * conversation that has moved from one to the other keeps its calls and results together all the same.
 */
export function toolId(id: string): string {
  return JSON.stringify(id.replace(/[^\w-]/g, '_'));
}

/** @throws {UnsupportedField} where a call has no name or id, or arguments that are no JSON object. */
export function toolUseBlocks(message: Record<string, unknown>, at: string): string[] {
  if (isRecord(message['function_call']))
    throw new UnsupportedField(
      `${at}.function_call`,
      'is of a kind that this model\'s provider does not know; use "tool_calls"',
    );
  const calls = message['tool_calls'] ?? [];
  if (!Array.isArray(calls)) throw new UnsupportedField(`${at}.tool_calls`, 'must be an array');
  return calls.map((call: unknown, index) => {
    const place = `${at}.tool_calls[${index}]`;
    if (!isRecord(call)) throw new UnsupportedField(place, 'must be an object');
    const { id, function: called } = call;
    if (typeof id !== 'string' || id === '')
      throw new UnsupportedField(`${place}.id`, 'must be a string that is not empty');
    if (!isRecord(called))
      throw new UnsupportedField(
        `${place}.function`,
        "must be an object; this model's provider knows no other calls than those of functions",
      );
    if (typeof called['name'] !== 'string')
      throw new UnsupportedField(`${place}.function.name`, 'must be a string');
    return objectOf({
      type: '"tool_use"',
      id: toolId(id),
      name: JSON.stringify(called['name']),
      input: inputOf(called['arguments'], `${place}.function.arguments`),
    });
  });
}

/** The arguments as they stand: they are JSON already, and no number in them is touched. */
function inputOf(given: unknown, at: string): string {
  if (given === undefined || given === null || given === '') return '{}';
  if (typeof given !== 'string') throw new UnsupportedField(at, 'must be a string that holds a JSON object');
  try {
    // Half a surrogate pair is fine in a string of JSON as an escape, and nowhere in UTF-8.
    const text = given.isWellFormed()
      ? given
      : given.replaceAll(/\p{Cs}/gu, (half) => `\\u${half.charCodeAt(0).toString(16)}`);
    scanObject(Buffer.from(text), []);
    return text.trim();
  } catch {
    throw new UnsupportedField(at, 'must be a string that holds a JSON object');
  }
}
