import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ApiError } from '#server/errors/api-error.ts';
import { CLIENTS } from '#server/protocols/clients.ts';
import type { Conversation, ToolResult, Turn } from '#server/protocols/conversation.ts';
import { PROTOCOLS, type Protocol } from '#server/protocols/protocol.ts';
import { UPSTREAMS } from '#server/protocols/upstreams.ts';
import { createOpenai } from '#server/providers/openai/openai.ts';
import { conversations } from '../../support/protocols/conversations.ts';
import { providerCallOf } from '../../support/protocols/provider-call.ts';
import { requestText } from '../../support/providers/request-text.ts';

/** Any conversation, written for an upstream of each protocol, and read as that protocol's clients' is. */

const MODEL = 'claude-opus-4-8';

function throughUpstream(protocol: Protocol, conversation: Conversation): Conversation {
  const upstream = UPSTREAMS[protocol];
  const options = { tokenLimitMember: 'max_tokens', reasoning: 'details', report: () => {} } as const;
  const call = upstream.call(providerCallOf(undefined, MODEL), conversation, options);
  if (call instanceof ApiError) throw call;
  const request = upstream.request(call, createOpenai('other'));
  if (request instanceof ApiError) throw request;
  return CLIENTS[protocol].read(JSON.parse(requestText(request)) as Record<string, unknown>, () => {});
}

type Rules = {
  /** Whether a thought without a signature is sent back. */
  hasUnsigned: boolean;
  /** Whether a tool's result may have files, and is empty without a part. */
  hasFiles: boolean;
  /** Whether what follows the turn of a user, or the results of tools, is another turn. */
  mergesUsers: boolean;
};
const RULES: Record<Protocol, Rules> = {
  chat: { hasUnsigned: true, hasFiles: false, mergesUsers: false },
  responses: { hasUnsigned: false, hasFiles: true, mergesUsers: false },
  messages: { hasUnsigned: false, hasFiles: true, mergesUsers: true },
  gemini: { hasUnsigned: false, hasFiles: false, mergesUsers: true },
};

/** The same conversation, as far as this test compares it. */
function comparable(conversation: Conversation, protocol: Protocol): object {
  const { hasUnsigned, hasFiles, mergesUsers } = RULES[protocol];
  const turns: Turn[] = [];
  for (const turn of conversation.turns) {
    const last = turns.at(-1);
    if (turn.role === 'user' && last?.role === 'user' && mergesUsers) last.parts.push(...turn.parts);
    else turns.push(structuredClone(turn));
  }
  for (const turn of turns) {
    if (turn.role === 'assistant' && !hasUnsigned)
      turn.parts = turn.parts.filter((part) => part.type !== 'reasoning' || part.signature !== null);
    if (turn.role === 'tool' && !hasFiles)
      for (const result of turn.results) result.parts = [{ type: 'text', text: textOf(result) }];
    // Gemini's documents have no names.
    if (turn.role === 'user' && protocol === 'gemini')
      turn.parts = turn.parts.map((part) => (part.type === 'document' ? { ...part, name: null } : part));
  }
  const { tools, toolChoice } = conversation;
  return {
    turns,
    toolChoice,
    tools: tools.map((tool) => ({
      ...tool,
      strict: protocol !== 'gemini' && 'strict' in tool && tool.strict,
    })),
    schema: conversation.format?.type === 'json_schema' ? conversation.format.schema : null,
  };
}

const textOf = ({ parts }: ToolResult): string =>
  parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n');

/** Anthropic refuses blank texts. */
const said = conversations.map((conversation) => ({
  ...conversation,
  turns: conversation.turns.map((turn): Turn => mapTexts(turn)),
}));
function mapTexts(turn: Turn): Turn {
  return JSON.parse(
    JSON.stringify(turn, (name, value: unknown) =>
      name === 'text' && typeof value === 'string' ? `a${value}` : value,
    ),
  ) as Turn;
}
const withoutFiles = (conversation: Conversation): Conversation => ({
  ...conversation,
  turns: conversation.turns.map((turn) =>
    turn.role === 'tool'
      ? {
          role: 'tool',
          results: turn.results.map(({ id, parts }) => ({
            id,
            parts: parts.filter(({ type }) => type === 'text'),
          })),
        }
      : turn,
  ),
});

describe.each(PROTOCOLS)('a request written for an upstream of %s', (protocol) => {
  test('states every text, file, thought, tool, call and result of the conversation', () => {
    fc.assert(
      fc.property(said, (any) => {
        // Instructions alone are a question of the user's to some providers.
        fc.pre(any.turns.some(({ role }) => role !== 'system'));
        const conversation = RULES[protocol].hasFiles ? any : withoutFiles(any);
        const read = throughUpstream(protocol, conversation);
        expect(comparable(read, protocol)).toEqual(comparable(conversation, protocol));
      }),
    );
  });
});
