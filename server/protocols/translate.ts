import type { TokenLimitMember } from '#db/events/upstream-events.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { CLIENTS } from '#server/protocols/clients.ts';
import { Untranslatable } from '#server/protocols/fields.ts';
import { type Protocol, preferredOf } from '#server/protocols/protocol.ts';
import type { ReplyReader, ReplyWriter } from '#server/protocols/reply-events.ts';
import { SIGNATURE_MARKS, withOwnSignatures } from '#server/protocols/signatures.ts';
import { TranslatedSse } from '#server/protocols/translated-sse.ts';
import { UPSTREAMS } from '#server/protocols/upstreams.ts';
import { anthropic } from '#server/providers/anthropic/provider.ts';
import type { JsonReply, Provider, ProviderCall, ReasoningForm } from '#server/providers/provider.ts';

/** Calls of one protocol at upstreams with another. */

/** Names in the header of lost fields; more are omitted. */
const LOSSES_MAX = 32;

/** An upstream, as far as a translation depends on it. */
export type TranslationTarget = {
  provider: Provider;
  protocols: ReadonlySet<Protocol>;
  tokenLimitMember: TokenLimitMember;
  /** How the upstream receives the reasoning of earlier replies in a chat. */
  reasoning: ReasoningForm;
};

export type TranslationOptions = {
  /** The error of a streamed reply that failed, in the client's protocol. */
  errorEvent: (refusal: ApiError, eventsBefore: number) => string;
  nowMs: number;
};

/** A call as its upstream takes it, what reads the reply for its client, and the fields that are lost. */
export type Translation = { call: ProviderCall; provider: Provider; losses: readonly string[] };

/**
 * Translates a call into a protocol of its upstream, and its reply back. The body of the client stays as it
 * is, for another attempt.
 * @param from the client's protocol, which the upstream doesn't have.
 * @returns an error where the upstream's protocol can't state the request; it names the field at fault.
 */
export function translateCall(
  call: ProviderCall,
  from: Protocol,
  target: TranslationTarget,
  { errorEvent, nowMs }: TranslationOptions,
): Translation | ApiError {
  const to = preferredOf(target.protocols);
  if (to === null) return new ApiError('model_not_found', { param: 'model' });
  // Messages are written from chats, whose numbers and schemas stay as they were written.
  if (from === 'chat' && to === 'messages') return { call, provider: anthropic, losses: [] };
  const { parsed } = call;
  const [client, upstream] = [CLIENTS[from], UPSTREAMS[to]];
  const losses = new Set<string>();
  const report = (field: string): unknown => losses.size < LOSSES_MAX && losses.add(field);
  try {
    const request = JSON.parse(call.body.bytes.toString()) as Record<string, unknown>;
    const conversation = withOwnSignatures(client.read(request, report), SIGNATURE_MARKS[to], report);
    const { tokenLimitMember, reasoning } = target;
    const translated = upstream.call(call, conversation, { tokenLimitMember, reasoning, report });
    if (translated instanceof ApiError) return translated;
    const writer = (): ReplyWriter =>
      client.writer({
        request,
        conversation,
        model: parsed.model,
        createdS: Math.floor(nowMs / 1_000),
        isStreamed: parsed.sse,
        includeUsage: parsed.includeUsage,
      });
    const failed = (eventsBefore: number): string => errorEvent(new ApiError('upstream_error'), eventsBefore);
    return {
      call: translated,
      losses: [...losses],
      provider: {
        request: (each) => upstream.request(each, target.provider),
        sse: (each) => new TranslatedSse(upstream.sse(each), upstream.reader(), writer(), failed),
        json: (bytes) => translateJson(upstream.json(bytes), upstream.reader(), writer()),
        parseError: (body) => target.provider.parseError(body),
      },
    };
  } catch (error) {
    if (error instanceof Untranslatable) return error.refusal;
    throw error;
  }
}

/** @returns null: no client could read it, or the upstream has reported an error as a success. */
function translateJson(reply: JsonReply | null, reader: ReplyReader, writer: ReplyWriter): JsonReply | null {
  if (reply === null || reply.failed) return null;
  const { bytes, usage } = reply;
  for (const event of reader.whole(JSON.parse(bytes.toString()), bytes.toString('latin1')))
    writer.take(event);
  return { ...reply, bytes: Buffer.from(writer.body(usage), 'latin1'), text: null };
}
