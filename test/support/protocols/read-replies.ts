import { ChatReplyReader } from '#server/protocols/chat/read-reply.ts';
import { GeminiReplyReader } from '#server/protocols/gemini/read-reply.ts';
import { MessagesReplyReader } from '#server/protocols/messages/read-reply.ts';
import { PROTOCOLS, type Protocol } from '#server/protocols/protocol.ts';
import type { ReplyEvent, ReplyReader } from '#server/protocols/reply-events.ts';
import { ResponsesReplyReader } from '#server/protocols/responses/read-reply.ts';
import { dataOf } from '#server/wire/sse.ts';

/** Replies of each protocol, read as an upstream's are. */

export type Pair = { upstream: Protocol; client: Protocol };
export const PAIRS: readonly Pair[] = PROTOCOLS.flatMap((upstream) =>
  PROTOCOLS.map((client) => ({ upstream, client })),
);

export const READERS: Record<Protocol, () => ReplyReader> = {
  chat: () => new ChatReplyReader(),
  responses: () => new ResponsesReplyReader(''),
  messages: () => new MessagesReplyReader(),
  gemini: () => new GeminiReplyReader(''),
};

/** The events of a stream, each parsed. */
export function readStream(protocol: Protocol, stream: string): ReplyEvent[] {
  const reader = READERS[protocol]();
  return stream.split(/\r?\n\r?\n/).flatMap((event) => {
    const data = dataOf(event);
    if (data === null) return [];
    const json = Buffer.from(data).toString('latin1');
    return reader.read(data === '[DONE]' ? null : (JSON.parse(data) as unknown), json);
  });
}

export const readBody = (protocol: Protocol, body: Buffer): ReplyEvent[] =>
  READERS[protocol]().whole(JSON.parse(body.toString()), body.toString('latin1'));
