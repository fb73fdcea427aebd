import { arrayOf, elementsOf, membersOf, objectOf } from '#server/wire/raw-json.ts';
import { UnsupportedField } from '#server/providers/anthropic/unsupported-field.ts';

/**
 * The tools of a request, and which of them are to be used. Schemas stay the text that the client wrote.
 * Pure.
 */

const NO_PARAMETERS = '{"type":"object","properties":{}}';
const CHOICES: Record<string, string> = { '"auto"': 'auto', '"none"': 'none', '"required"': 'any' };

export type Tools = {
  /** As JSON; null: no tools. */
  tools: string | null;
  choice: string | null;
  /** Whether the model has to call a tool. */
  forced: boolean;
};

/**
 * @param members the client's request, each member as JSON.
 * @throws {UnsupportedField} for a tool that is not a function, or a choice that Anthropic doesn't support.
 */
export function toolsOf(members: ReadonlyMap<string, string>): Tools {
  const tools = elementsOf(members.get('tools') ?? '[]').map((tool, index) =>
    toolOf(tool, `tools[${index}]`),
  );
  // Without tools there is nothing to choose from; the convention has it the same way.
  if (tools.length === 0) return { tools: null, choice: null, forced: false };
  const choice = choiceOf(members.get('tool_choice') ?? 'null');
  const oneByOne = members.get('parallel_tool_calls') === 'false' && choice?.type !== 'none';
  const reported = oneByOne ? (choice ?? { type: 'auto', name: null }) : choice;
  return {
    tools: arrayOf(tools),
    choice:
      reported &&
      objectOf({
        type: `"${reported.type}"`,
        name: reported.name,
        disable_parallel_tool_use: oneByOne ? 'true' : null,
      }),
    forced: reported?.type === 'any' || reported?.type === 'tool',
  };
}

function toolOf(text: string, at: string): string {
  const tool = membersOf(text);
  if (tool.get('type') !== '"function"')
    throw new UnsupportedField(
      `${at}.type`,
      'must be "function"; this model\'s provider takes no other tools',
    );
  const called = membersOf(tool.get('function') ?? '{}');
  const name = called.get('name');
  if (name?.[0] !== '"') throw new UnsupportedField(`${at}.function.name`, 'must be a string');
  const description = called.get('description');
  return objectOf({
    name,
    description: description?.[0] === '"' ? description : null,
    input_schema: schemaOf(called.get('parameters')),
    strict: called.get('strict') === 'true' ? 'true' : null,
    cache_control:
      [tool.get('cache_control'), called.get('cache_control')].find((mark) => mark?.[0] === '{') ?? null,
  });
}

/** Anthropic requires the type `object` in an input's schema, which OpenAI leaves optional. */
function schemaOf(parameters: string | undefined): string {
  if (parameters?.[0] !== '{') return NO_PARAMETERS;
  const members = membersOf(parameters);
  if (members.size === 0) return NO_PARAMETERS;
  return members.has('type') ? parameters : `{"type":"object",${parameters.slice(1)}`;
}

function choiceOf(text: string): { type: string; name: string | null } | null {
  if (text === 'null') return null;
  const plain = CHOICES[text];
  if (plain !== undefined) return { type: plain, name: null };
  const choice = membersOf(text);
  const name = membersOf(choice.get('function') ?? '{}').get('name');
  if (choice.get('type') !== '"function"' || name?.[0] !== '"') {
    throw new UnsupportedField('tool_choice', 'must be "auto", "none", "required" or a function by its name');
  }
  return { type: 'tool', name };
}
