import {
  blocksOf,
  cacheControlOf,
  isRecord,
  type ReportUnsupported,
  textBlock,
} from '#server/providers/anthropic/content.ts';
import { arrayOf, elementsOf, objectOf } from '#server/wire/raw-json.ts';
import { thinkingBlocks } from '#server/providers/anthropic/reasoning-details.ts';
import { toolId, toolUseBlocks } from '#server/providers/anthropic/tool-calls.ts';
import { UnsupportedField } from '#server/providers/anthropic/unsupported-field.ts';

/** What a conversation is in Anthropic's Messages; blocks and messages as JSON. */
export type Conversation = {
  system: string[];
  messages: string[];
  /** Whether results of tools are waiting for a reply to whose calls no thoughts were sent back. */
  forgotThoughts: boolean;
};

/** Messages of one role in a row: they make one message, in which the results of tools come first. */
type Turn = { role: 'user' | 'assistant'; results: string[]; blocks: string[]; thought: boolean };

/**
 * Translates a conversation. Instructions at its beginning become the system prompt. Those further
 * on stay where they are, as words of the user: Anthropic takes them in their own role with its newest
 * models alone, and only in some places.
 * @param text the array of messages, as JSON.
 * @throws {UnsupportedField}
 */
export function conversationOf(text: string, note: ReportUnsupported): Conversation {
  const system: string[] = [];
  const turns: Turn[] = [];
  const turnOf = (role: Turn['role']): Turn => {
    const last = turns.at(-1);
    if (last?.role === role) return last;
    const turn: Turn = { role, results: [], blocks: [], thought: false };
    turns.push(turn);
    return turn;
  };
  const elements = elementsOf(text);
  for (const [index, element] of elements.entries()) {
    const at = `messages[${index}]`;
    const message = JSON.parse(element) as unknown;
    if (!isRecord(message)) throw new UnsupportedField(at, 'must be an object');
    if (typeof message['name'] === 'string' && message['role'] !== 'tool') note('messages.name');
    switch (message['role']) {
      case 'system':
      case 'developer': {
        const blocks = contentOf(message, at, note);
        // Instructions alone ask for something, too: the last of them is what a reply is made to.
        if (turns.length === 0 && (index < elements.length - 1 || blocks.length === 0))
          system.push(...blocks);
        else turnOf('user').blocks.push(...blocks);
        break;
      }
      case 'user':
        turnOf('user').blocks.push(...contentOf(message, at, note));
        break;
      case 'assistant': {
        const thoughts = thinkingBlocks(message);
        const blocks = [
          ...thoughts,
          ...contentOf(message, at, note),
          ...refusalOf(message),
          ...toolUseBlocks(message, at),
        ];
        if (blocks.length === 0) break;
        const turn = turnOf('assistant');
        if (turn.blocks.length === 0) turn.thought = thoughts.length > 0;
        turn.blocks.push(...blocks);
        break;
      }
      case 'tool':
        turnOf('user').results.push(resultBlock(message, at, note));
        break;
      default:
        throw new UnsupportedField(`${at}.role`, "isn't a role that this model's provider supports");
    }
  }
  const reported = turns.filter(({ results, blocks }) => results.length + blocks.length > 0);
  return { system, messages: reported.map(messageOf), forgotThoughts: forgotThoughts(reported) };
}

function messageOf({ role, results, blocks }: Turn): string {
  return objectOf({ role: `"${role}"`, content: arrayOf([...results, ...blocks]) });
}

/** The content's blocks; a mark for the cache on the message itself is one on its last block. */
function contentOf(message: Record<string, unknown>, at: string, note: ReportUnsupported): string[] {
  const { content } = message;
  if (typeof content === 'string') return textBlock(content, cacheControlOf(message));
  const blocks = blocksOf(content, `${at}.content`, note);
  const mark = cacheControlOf(message);
  const last = blocks.at(-1);
  if (mark === null || last === undefined || last.includes('"cache_control":')) return blocks;
  return [...blocks.slice(0, -1), `${last.slice(0, -1)},"cache_control":${mark}}`];
}

function refusalOf(message: Record<string, unknown>): string[] {
  return typeof message['refusal'] === 'string' ? textBlock(message['refusal'], null) : [];
}

function resultBlock(message: Record<string, unknown>, at: string, note: ReportUnsupported): string {
  const id = message['tool_call_id'];
  if (typeof id !== 'string' || id === '')
    throw new UnsupportedField(`${at}.tool_call_id`, 'must be the id of a tool call');
  const blocks = blocksOf(message['content'], `${at}.content`, note);
  return objectOf({
    type: '"tool_result"',
    tool_use_id: toolId(id),
    content: blocks.length === 0 ? null : arrayOf(blocks),
    cache_control: cacheControlOf(message),
  });
}

function forgotThoughts(turns: readonly Turn[]): boolean {
  const asked = turns.at(-2);
  return (turns.at(-1)?.results.length ?? 0) > 0 && asked?.role === 'assistant' && !asked.thought;
}
