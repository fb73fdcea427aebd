import { z } from 'zod';
import { readSse } from './sse-events.ts';

/** What a chat client makes of a reply's body. */
export type ChatBody = {
  /** The reply's `id`. */
  id: string | null;
  /** Content deltas that been received; of a JSON body, the scripted upstream's tokens in its text. */
  tokens: number;
  sawDone: boolean;
  /** An error object, as the body or within the stream. */
  sawError: boolean;
  /** The data of each SSE event: parsed, or as text where it is no JSON. [DONE] is omitted. */
  events: unknown[];
  comments: string[];
  /** A JSON body, parsed; undefined for SSE, and for everything that is no JSON. */
  json: unknown;
  /** The model's text: reasoning, content, refusal and the arguments of tool calls, joined. */
  text: string;
  finishReason: string | null;
  /** The last usage that been received, as it was. */
  usage: unknown;
};

/** Moments within a streamed reply. */
export type Moment = 'token' | 'finish' | 'usage' | 'done';

export type ChatBodyReader = {
  /** Tells what kind of body will come. */
  begin(contentType: string | null): void;
  push(bytes: Buffer): void;
  /** The result; `whole` is the body, as far as it was kept. */
  end(whole: Buffer): ChatBody;
};

const Call = z.looseObject({ function: z.looseObject({ arguments: z.string().optional() }).optional() });
const Message = z.looseObject({
  content: z.string().nullish(),
  reasoning_content: z.string().nullish(),
  refusal: z.string().nullish(),
  tool_calls: z.array(Call).nullish(),
});
const Choice = z.looseObject({
  delta: Message.optional(),
  message: Message.optional(),
  finish_reason: z.string().nullish(),
});
const Reply = z.looseObject({
  id: z.string().optional(),
  choices: z.array(Choice).optional(),
  usage: z.unknown().optional(),
  error: z.unknown().optional(),
});

/** A reader that counts as the body is received and reports each moment in a stream when it has come. */
export function readChatBody(onMoment: (moment: Moment, tokens: number) => void): ChatBodyReader {
  const seen: ChatBody = {
    id: null,
    tokens: 0,
    sawDone: false,
    sawError: false,
    events: [],
    comments: [],
    json: undefined,
    text: '',
    finishReason: null,
    usage: undefined,
  };
  let isSse = false;

  /** Takes in a chunk or a whole reply; returns the pieces of text in it. */
  function take(value: unknown): string[] {
    const parsed = Reply.safeParse(value);
    if (!parsed.success) return [];
    const { id, choices = [], usage, error } = parsed.data;
    seen.id ??= id ?? null;
    if (usage !== undefined && usage !== null) seen.usage = usage;
    if (error !== undefined && error !== null) seen.sawError = true;
    const pieces = choices.flatMap(({ delta, message, finish_reason: reason }) => {
      seen.finishReason = reason ?? seen.finishReason;
      return [delta, message].flatMap((each) => [
        each?.reasoning_content ?? '',
        each?.content ?? '',
        each?.refusal ?? '',
        ...(each?.tool_calls ?? []).map((call) => call.function?.arguments ?? ''),
      ]);
    });
    seen.text += pieces.join('');
    return pieces.filter((piece) => piece !== '');
  }

  const sse = readSse({
    data(data) {
      if (data === '[DONE]') {
        seen.sawDone = true;
        onMoment('done', seen.tokens);
        return;
      }
      const value = parsedOrText(data);
      seen.events.push(value);
      const before = { finishReason: seen.finishReason, usage: seen.usage };
      const pieces = take(value);
      seen.tokens += pieces.length;
      if (pieces.length > 0) onMoment('token', seen.tokens);
      if (seen.finishReason !== before.finishReason) onMoment('finish', seen.tokens);
      if (seen.usage !== before.usage) onMoment('usage', seen.tokens);
    },
    comment: (text) => seen.comments.push(text),
  });

  return {
    begin(contentType) {
      isSse = contentType?.startsWith('text/event-stream') ?? false;
    },
    push(bytes) {
      if (isSse) sse.push(bytes);
    },
    end(whole) {
      if (isSse) return seen;
      const value = parsedOrText(whole.toString());
      if (typeof value === 'string') return seen;
      seen.json = value;
      // The scripted upstream ends each token with the only blank in it.
      seen.tokens = take(value).join('').split(' ').length - 1;
      return seen;
    },
  };
}

function parsedOrText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
