import { readChatRequest } from '#server/protocols/chat/read-request.ts';
import { ChatReplyWriter } from '#server/protocols/chat/write-reply.ts';
import type { Conversation, ReportLoss } from '#server/protocols/conversation.ts';
import { readGeminiRequest } from '#server/protocols/gemini/read-request.ts';
import { GeminiReplyWriter } from '#server/protocols/gemini/write-reply.ts';
import { readMessagesRequest } from '#server/protocols/messages/read-request.ts';
import { MessagesReplyWriter } from '#server/protocols/messages/write-reply.ts';
import type { Protocol } from '#server/protocols/protocol.ts';
import type { ReplyWriter } from '#server/protocols/reply-events.ts';
import { readResponsesRequest } from '#server/protocols/responses/read-request.ts';
import { ResponsesReplyWriter } from '#server/protocols/responses/write-reply.ts';

/** Reads the requests of a client's protocol, and writes its replies. */
export type ClientProtocol = {
  read(request: Record<string, unknown>, report: ReportLoss): Conversation;
  writer(options: WriterOptions): ReplyWriter;
};

export type WriterOptions = {
  request: Record<string, unknown>;
  conversation: Conversation;
  /** The client's name for the model. */
  model: string;
  createdS: number;
  isStreamed: boolean;
  /** Whether a stream of chat completions reports its usage. */
  includeUsage: boolean;
};

export const CLIENTS: Record<Protocol, ClientProtocol> = {
  chat: {
    read: readChatRequest,
    writer: ({ conversation, model, createdS, isStreamed, includeUsage }) => {
      const customTools = customToolsOf(conversation);
      return new ChatReplyWriter({ model, createdS, isStreamed, includeUsage, customTools });
    },
  },
  responses: {
    read: readResponsesRequest,
    writer: ({ request, conversation, model, createdS, isStreamed }) => {
      const customTools = customToolsOf(conversation);
      return new ResponsesReplyWriter({ request, customTools, model, createdS, isStreamed });
    },
  },
  messages: {
    read: readMessagesRequest,
    writer: ({ model, isStreamed }) => new MessagesReplyWriter(model, isStreamed),
  },
  gemini: {
    read: readGeminiRequest,
    writer: ({ model, isStreamed }) => new GeminiReplyWriter(model, isStreamed),
  },
};

const customToolsOf = ({ tools }: Conversation): ReadonlySet<string> =>
  new Set(tools.filter(({ kind }) => kind === 'custom').map(({ name }) => name));
