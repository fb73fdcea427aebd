import { CHAT_COMPLETIONS } from '#db/limits/limits.ts';
import type { TokenLimitMember } from '#db/events/upstream-events.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { ChatReplyReader } from '#server/protocols/chat/read-reply.ts';
import { writeChatRequest } from '#server/protocols/chat/write-request.ts';
import type { Conversation, ReportLoss } from '#server/protocols/conversation.ts';
import { geminiParser } from '#server/protocols/gemini/parse-request.ts';
import { GeminiReplyReader } from '#server/protocols/gemini/read-reply.ts';
import { writeGeminiRequest } from '#server/protocols/gemini/write-request.ts';
import { MessagesReplyReader } from '#server/protocols/messages/read-reply.ts';
import type { Protocol } from '#server/protocols/protocol.ts';
import type { ReplyReader } from '#server/protocols/reply-events.ts';
import { ResponsesReplyReader } from '#server/protocols/responses/read-reply.ts';
import { writeResponsesRequest } from '#server/protocols/responses/write-request.ts';
import { SIGNATURE_MARKS } from '#server/protocols/signatures.ts';
import { readMessage } from '#server/providers/anthropic/messages-route.ts';
import { NativeSse } from '#server/providers/anthropic/native-sse.ts';
import { messagesRequest } from '#server/providers/anthropic/request.ts';
import { gemini, readGeminiReply } from '#server/providers/gemini/provider.ts';
import { GeminiSse } from '#server/providers/gemini/sse.ts';
import { parseJsonReply } from '#server/providers/openai/json-reply.ts';
import { readResponse } from '#server/providers/openai/responses.ts';
import { ResponsesSse } from '#server/providers/openai/responses-sse.ts';
import { ChatSse } from '#server/providers/openai/sse.ts';
import type {
  JsonReply,
  Provider,
  ProviderCall,
  ProviderRequest,
  ReasoningForm,
} from '#server/providers/provider.ts';
import type { PassthroughSse } from '#server/wire/passthrough-sse.ts';
import { parseChatCompletion } from '#server/wire/request-parser.ts';
import { parseResponse } from '#server/wire/route-parsers.ts';

/** Writes the requests of an upstream's protocol, and reads its replies. */
export type UpstreamProtocol = {
  /**
   * The call with a conversation as its body.
   * @returns an error where the protocol can't state it; it names the field at fault.
   */
  call(call: ProviderCall, conversation: Conversation, options: WriteOptions): ProviderCall | ApiError;
  request(call: ProviderCall, native: Provider): ProviderRequest | ApiError;
  /** What a streamed reply passes for a client of the same protocol. */
  sse(call: ProviderCall): PassthroughSse;
  json(bytes: Buffer): JsonReply | null;
  reader(): ReplyReader;
};

export type WriteOptions = {
  tokenLimitMember: TokenLimitMember;
  /** How a chat has the reasoning of earlier replies. */
  reasoning: ReasoningForm;
  report: ReportLoss;
};

export const UPSTREAMS: Record<Protocol, UpstreamProtocol> = {
  chat: {
    call: (call, conversation, options) => chatCall(call, conversation, options, false),
    request: (call, native) => native.request(call),
    sse: ({ redactor }) => new ChatSse(false, redactor),
    json: parseJsonReply,
    reader: () => new ChatReplyReader(),
  },
  messages: {
    // Its requests are written from chats.
    call(call, conversation, options) {
      if (hasUnsigned(conversation)) options.report('reasoning');
      return chatCall(call, conversation, { ...options, reasoning: 'details' }, true);
    },
    request: (call) => messagesRequest(call),
    sse: ({ redactor }) => new NativeSse(redactor, true),
    json: readMessage,
    reader: () => new MessagesReplyReader(),
  },
  responses: {
    call(call, conversation, { report }) {
      const { model, parsed } = call;
      const options = { model, isStreamed: parsed.sse, tokenLimit: parsed.completionLimit };
      const bytes = Buffer.from(writeResponsesRequest(conversation, options, report));
      const asked = parseResponse(bytes);
      if (asked instanceof ApiError) return asked;
      return { ...call, route: '/v1/responses', body: { bytes, slab: null }, parsed: asked, onStored: null };
    },
    request: (call, native) => native.request(call),
    sse: ({ redactor }) => new ResponsesSse(redactor),
    json: (bytes) => readResponse(bytes, {}),
    reader: () => new ResponsesReplyReader(SIGNATURE_MARKS.responses),
  },
  gemini: {
    call(call, conversation, { report }) {
      const { model, parsed } = call;
      const tokenLimit = call.tokenLimit ?? parsed.completionLimit;
      const bytes = Buffer.from(writeGeminiRequest(conversation, { model, tokenLimit }, report));
      const asked = geminiParser(model, parsed.sse)(bytes);
      return asked instanceof ApiError ? asked : { ...call, body: { bytes, slab: null }, parsed: asked };
    },
    request: (call) => gemini.request(call),
    sse: ({ redactor }) => new GeminiSse(redactor),
    json: readGeminiReply,
    reader: () => new GeminiReplyReader(SIGNATURE_MARKS.gemini),
  },
};

/** Whether a reply has reasoning that Anthropic rejects. */
const hasUnsigned = ({ turns }: Conversation): boolean =>
  turns.some(
    (turn) =>
      turn.role === 'assistant' &&
      turn.parts.some((part) => part.type === 'reasoning' && part.signature === null),
  );

function chatCall(
  call: ProviderCall,
  conversation: Conversation,
  { tokenLimitMember, reasoning, report }: WriteOptions,
  hasFilesInResults: boolean,
): ProviderCall | ApiError {
  const { model, parsed } = call;
  const options = { model, isStreamed: parsed.sse, tokenLimit: parsed.completionLimit, tokenLimitMember };
  const text = writeChatRequest(conversation, { ...options, reasoning, hasFilesInResults }, report);
  const bytes = Buffer.from(text);
  const asked = parseChatCompletion(bytes);
  if (asked instanceof ApiError) return asked;
  return { ...call, route: CHAT_COMPLETIONS, body: { bytes, slab: null }, parsed: asked };
}
