import { CHAT_COMPLETIONS, type RelayedRoute } from '#db/limits/limits.ts';
import type { TokenLimitMember } from '#db/events/upstream-events.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { ChatReplyReader } from '#server/protocols/chat/read-reply.ts';
import { writeChatRequest } from '#server/protocols/chat/write-request.ts';
import type { Conversation, ReportLoss } from '#server/protocols/conversation.ts';
import { readGeminiRequest } from '#server/protocols/gemini/read-request.ts';
import { GeminiReplyWriter } from '#server/protocols/gemini/write-reply.ts';
import { Untranslatable } from '#server/protocols/fields.ts';
import { readMessagesRequest } from '#server/protocols/messages/read-request.ts';
import { MessagesReplyWriter } from '#server/protocols/messages/write-reply.ts';
import type { ReplyWriter } from '#server/protocols/reply-events.ts';
import { readResponsesRequest } from '#server/protocols/responses/read-request.ts';
import { ResponsesReplyWriter } from '#server/protocols/responses/write-reply.ts';
import { TranslatedSse } from '#server/protocols/translated-sse.ts';
import type { JsonReply, Provider, ProviderCall, ReasoningForm } from '#server/providers/provider.ts';
import { parseChatCompletion } from '#server/wire/request-parser.ts';

/** Calls of one protocol at upstreams with another: every upstream takes chat completions. */

/** Protocols whose calls can be translated into chat completions. */
export type TranslatedProtocol = 'responses' | 'messages' | 'gemini';

/** Reads the requests of a client's protocol, and writes its replies. */
type Translator = {
  read(request: Record<string, unknown>, report: ReportLoss): Conversation;
  writer(options: WriterOptions): ReplyWriter;
};

type WriterOptions = {
  request: Record<string, unknown>;
  conversation: Conversation;
  model: string;
  createdS: number;
  isStreamed: boolean;
};

const TRANSLATORS: Record<TranslatedProtocol, Translator> = {
  messages: {
    read: readMessagesRequest,
    writer: ({ model, isStreamed }) => new MessagesReplyWriter(model, isStreamed),
  },
  responses: {
    read: readResponsesRequest,
    writer: ({ request, conversation, model, createdS, isStreamed }) => {
      const customs = conversation.tools.filter(({ kind }) => kind === 'custom');
      const customTools = new Set(customs.map(({ name }) => name));
      return new ResponsesReplyWriter({ request, customTools, model, createdS, isStreamed });
    },
  },
  gemini: {
    read: readGeminiRequest,
    writer: ({ model, isStreamed }) => new GeminiReplyWriter(model, isStreamed),
  },
};

/** Names in the header of lost fields; more are omitted. */
const LOSSES_MAX = 32;

export type TranslationOptions = {
  tokenLimitMember: TokenLimitMember;
  /** How the upstream receives the reasoning of earlier replies. */
  reasoning: ReasoningForm;
  /** The error of a streamed reply that failed, in the client's protocol. */
  errorEvent: (refusal: ApiError, eventsBefore: number) => string;
  nowMs: number;
};

/** A call as its upstream takes it, what reads the reply for its client, and the fields that are lost. */
export type Translation = { call: ProviderCall; provider: Provider; losses: readonly string[] };

/** The protocol of a route whose calls can be translated; null: they are in chat completions, or can't be. */
export function translatedProtocol(route: RelayedRoute): TranslatedProtocol | null {
  switch (route) {
    case '/v1/responses':
      return 'responses';
    case '/v1/messages':
      return 'messages';
    case '/v1/chat/completions':
    case '/v1/completions':
    case '/v1/embeddings':
    case '/v1/moderations':
    case '/v1/rerank':
    case '/v1/images/generations':
      return null;
  }
}

/**
 * Translates a call into a chat completion, and its reply back. The body of the client stays as it is, for
 * another attempt.
 * @param native the provider of the upstream, which takes chat completions.
 * @returns an error where the request can't be a chat completion; it names the field at fault.
 */
export function translateCall(
  call: ProviderCall,
  protocol: TranslatedProtocol,
  native: Provider,
  { tokenLimitMember, reasoning, errorEvent, nowMs }: TranslationOptions,
): Translation | ApiError {
  const { parsed, model } = call;
  const translator = TRANSLATORS[protocol];
  const losses = new Set<string>();
  const report = (field: string): unknown => losses.size < LOSSES_MAX && losses.add(field);
  try {
    const request = JSON.parse(call.body.bytes.toString()) as Record<string, unknown>;
    const conversation = translator.read(request, report);
    const options = { model, isStreamed: parsed.sse, tokenLimit: parsed.completionLimit };
    const text = writeChatRequest(conversation, { ...options, tokenLimitMember, reasoning }, report);
    const bytes = Buffer.from(text);
    const chat = parseChatCompletion(bytes);
    if (chat instanceof ApiError) return chat;
    const writer = (): ReplyWriter =>
      translator.writer({
        request,
        conversation,
        model: parsed.model,
        createdS: Math.floor(nowMs / 1_000),
        isStreamed: parsed.sse,
      });
    const chatCall: ProviderCall = {
      ...call,
      route: CHAT_COMPLETIONS,
      body: { bytes, slab: null },
      parsed: chat,
    };
    return {
      call: chatCall,
      losses: [...losses],
      provider: {
        ...native,
        sse: (each) =>
          new TranslatedSse(native.sse(each), writer(), (before) =>
            errorEvent(new ApiError('upstream_error'), before),
          ),
        json: (reply, each) => translateJson(native.json(reply, each), writer()),
      },
    };
  } catch (error) {
    if (error instanceof Untranslatable) return error.refusal;
    throw error;
  }
}

/** @returns null: no client could read it, or the upstream has reported an error as a success. */
function translateJson(reply: JsonReply | null, writer: ReplyWriter): JsonReply | null {
  if (reply === null || reply.failed) return null;
  for (const event of new ChatReplyReader().read(JSON.parse(reply.bytes.toString()))) writer.take(event);
  return { ...reply, bytes: Buffer.from(writer.body(reply.usage)), text: null };
}
