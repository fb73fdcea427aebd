import type { Tool, ToolCall } from '#server/protocols/conversation.ts';
import { type Literal, literalOf, quoted, textIn } from '#server/protocols/literal.ts';
import { asRecord } from '#server/wire/counts.ts';

/**
 * Calls of tools that take free text, as calls of functions: the text is the only argument. That is how
 * protocols without such tools have them, and how they are between two protocols. Pure.
 */

/** The name of the only parameter of the function that stands for a custom tool. */
const CUSTOM_INPUT = 'input';

/** What stands before and behind the text in the arguments of such a function. */
const BEFORE = quoted(`{"${CUSTOM_INPUT}":"`);
const BEHIND = quoted('"}');

/** A fragment of the free text, as one of the arguments. */
export const customFragment = (text: Literal, isFirst: boolean, isLast: boolean): Literal =>
  `${isFirst ? BEFORE : ''}${quoted(text)}${isLast ? BEHIND : ''}`;

/** The free text in the arguments of such a function; else the arguments. */
export function customInput(argument: Literal): Literal {
  try {
    const input = asRecord(JSON.parse(textIn(argument)))?.[CUSTOM_INPUT];
    return typeof input === 'string' ? literalOf(input) : argument;
  } catch {
    return argument;
  }
}

/** The parameters of a tool as a function. */
export function parametersOf(tool: Tool): object {
  if (tool.kind === 'function') return tool.parameters ?? { type: 'object', properties: {} };
  return {
    type: 'object',
    properties: { [CUSTOM_INPUT]: { type: 'string', description: "The tool's whole input as text." } },
    required: [CUSTOM_INPUT],
  };
}

/** The arguments of a call as one of a function, as JSON. */
export const inputOf = ({ input, isCustom }: ToolCall): string =>
  isCustom ? JSON.stringify({ [CUSTOM_INPUT]: input }) : input;
