import { relayedError } from '#server/providers/anthropic/errors.ts';
import { arrayOf, elementsOf, insideQuotes, membersOf, objectOf } from '#server/wire/raw-json.ts';
import { finishReason } from '#server/providers/anthropic/stop-reason.ts';
import { redactedDetail, thinkingDetail } from '#server/providers/anthropic/reasoning-details.ts';
import { MessageRecord } from '#server/providers/anthropic/message-record.ts';
import { usageJson } from '#server/providers/anthropic/usage.ts';
import type { JsonReply } from '#server/providers/provider.ts';
import { scanObject } from '#server/wire/json.ts';
import { NO_FACTS } from '#server/wire/reply-facts.ts';

/** What the blocks of a message hold, each part as JSON, or what stands between its quotes. */
type Parts = { texts: string[]; thoughts: string[]; details: string[]; toolCalls: string[] };

/**
 * A whole message as a chat completion. Strings and arguments are cut out and put in as they stand.
 * @param created when it was made, in seconds since 1970: Anthropic does not say.
 * @returns null where the bytes are no message and no error.
 */
export function readReply(bytes: Buffer, created: number): JsonReply | null {
  try {
    scanObject(bytes, []);
  } catch {
    return null;
  }
  // The bytes of a character stay together, so text of latin-1 will do, and nothing is decoded.
  const message = membersOf(bytes.toString('latin1'));
  const content = message.get('content');
  if (content?.[0] !== '[') {
    const error = message.get('error');
    if (error?.[0] !== '{') return null;
    return {
      bytes: Buffer.from(`{"error":${relayedError(error)}}`),
      text: null,
      usage: null,
      promptUsage: null,
      isImplausible: false,
      facts: NO_FACTS,
      outputBytes: () => 0,
      failed: true,
    };
  }
  const parts = partsOf(elementsOf(content));
  const record = new MessageRecord();
  record.whole(message);
  const { latest, usage, promptUsage, isImplausible, facts } = record;
  const text = objectOf({
    id: stringOr(message.get('id'), '""'),
    object: '"chat.completion"',
    created: String(created),
    model: stringOr(message.get('model'), '""'),
    choices: `[${objectOf({
      index: '0',
      message: messageOf(parts, membersOf(message.get('stop_details') ?? '').get('explanation')),
      logprobs: 'null',
      finish_reason: finishReason(message.get('stop_reason'), parts.toolCalls.length > 0),
    })}]`,
    usage: latest && usageJson(latest),
  });
  return {
    bytes: Buffer.from(text, 'latin1'),
    text,
    usage,
    promptUsage,
    isImplausible,
    facts,
    outputBytes: () => content.length,
    failed: false,
  };
}

function partsOf(blocks: readonly string[]): Parts {
  const parts: Parts = { texts: [], thoughts: [], details: [], toolCalls: [] };
  for (const [index, text] of blocks.entries()) {
    const block = membersOf(text);
    switch (block.get('type')) {
      case '"text"':
        parts.texts.push(insideQuotes(block.get('text')) ?? '');
        break;
      case '"thinking"':
        parts.thoughts.push(insideQuotes(block.get('thinking')) ?? '');
        parts.details.push(thinkingDetail(index, block.get('thinking'), block.get('signature')));
        break;
      case '"redacted_thinking"':
        parts.details.push(redactedDetail(index, stringOr(block.get('data'), '""')));
        break;
      case '"tool_use"': {
        const called = objectOf({
          name: stringOr(block.get('name'), '""'),
          arguments: JSON.stringify(block.get('input') ?? '{}'),
        });
        parts.toolCalls.push(
          objectOf({ id: stringOr(block.get('id'), '""'), type: '"function"', function: called }),
        );
        break;
      }
      // What tools of the provider's own have done has no place in the convention.
      default:
    }
  }
  return parts;
}

function messageOf({ texts, thoughts, details, toolCalls }: Parts, explanation: string | undefined): string {
  return objectOf({
    role: '"assistant"',
    content: texts.length === 0 && toolCalls.length > 0 ? 'null' : `"${texts.join('')}"`,
    refusal: stringOr(explanation, 'null'),
    reasoning_content: thoughts.some((each) => each !== '') ? `"${thoughts.join('')}"` : null,
    reasoning_details: details.length > 0 ? arrayOf(details) : null,
    tool_calls: toolCalls.length > 0 ? arrayOf(toolCalls) : null,
  });
}

function stringOr(text: string | undefined, otherwise: string): string {
  return text?.[0] === '"' ? text : otherwise;
}
