import type { EndReason, UsageSource } from '#db/events/endings.ts';
import type { Usage } from '#db/money.ts';
import { BYTES_PER_TOKEN } from '#server/wire/bounds.ts';
import type { JsonReply, Provider, ProviderCall } from '#server/providers/provider.ts';
import { NO_FACTS, type ReplyFacts } from '#server/wire/reply-facts.ts';
import type { SseReader } from '#server/wire/sse.ts';
import { type CallSize, isPlausible } from '#server/limits/plausible-usage.ts';
import type { ReplyHead } from '#server/relay/reply-head.ts';

/** The usage of a call as far as it is known, and how it is known. Pure. */
export type ReplyUsage = {
  /** The status that the client received; 499 when it disconnected before there was one. */
  status: number;
  usage: Usage;
  source: UsageSource;
  facts: Readonly<ReplyFacts>;
};

/** How a call ended. `firstByteMs`: from the request to the head of the reply; null: there was no head. */
export type CallEnd = ReplyUsage & { reason: EndReason; firstByteMs: number | null };

const NOTHING: Usage = { input: 0, cached: 0, output: 0, reasoning: 0 };
const CLIENT_CLOSED_STATUS = 499;

/** The end of a call that no upstream has worked for. @param status absent: the client has disconnected. */
export function unsentEnd(reason: EndReason, status = CLIENT_CLOSED_STATUS): CallEnd {
  return { status, usage: NOTHING, source: 'none', facts: NO_FACTS, reason, firstByteMs: null };
}

/** The upstream had the request, and nothing of its reply was read: it may well charge for the prompt. */
function promptUsage({ promptEstimate, unreported }: CallSize): ReplyUsage {
  const usage = unreported?.(0).usage ?? { ...NOTHING, input: promptEstimate };
  return { status: CLIENT_CLOSED_STATUS, usage, source: 'estimated', facts: NO_FACTS };
}

/**
 * The usage of an attempt whose client receives an error instead of a reply: an upstream whose successful
 * reply had begun has worked, by an unknown amount.
 */
export function errorUsage(form: ReplyHead['form'] | undefined, call: CallSize): ReplyUsage {
  if (form === 'json' || form === 'sse' || form === 'bytes') return promptUsage(call);
  return { status: CLIENT_CLOSED_STATUS, usage: NOTHING, source: 'none', facts: NO_FACTS };
}

/**
 * What an attempt may be charged for by its upstream although its client receives an error instead of the
 * reply: the reply that was read, or the prompt where the upstream had the request and did not reply.
 * @param charged the usage that the account is charged.
 * @param isUnanswered whether the request was sent, and neither a reply nor the end of the connection came.
 */
export function consumedUsage(
  charged: ReplyUsage,
  call: CallSize,
  { form, reader, bytes }: UnsentReply,
  isUnanswered: boolean,
): ReplyUsage {
  if (form === undefined) return isUnanswered ? promptUsage(call) : charged;
  if ((form === 'sse' || form === 'bytes') && reader !== null)
    return streamUsage(charged.status, call, reader, bytes);
  if (form !== 'json' || bytes === 0) return charged;
  const output = Math.ceil(bytes / BYTES_PER_TOKEN);
  if (call.unreported) return { ...charged, ...call.unreported(output) };
  return { ...charged, usage: { ...NOTHING, input: call.promptEstimate, output }, source: 'estimated' };
}

/** A reply that the client has not received: the form of its head, if any, and the part that was read. */
export type UnsentReply = {
  form: ReplyHead['form'] | undefined;
  reader: StreamedReply | null;
  bytes: number;
};

/** The usage that an error reply reports, as some providers do; null: it reports none. */
export function errorReplyUsage(
  status: number,
  { provider, call, size }: { provider: Provider; call: ProviderCall; size: CallSize },
  bytes: Buffer,
): ReplyUsage | null {
  const reply = bytes.includes('"usage"') ? provider.json(bytes, call) : null;
  return reply?.usage ? jsonUsage(status, size, reply, bytes.length) : null;
}

type StreamedReply = Pick<SseReader, 'usage' | 'promptUsage' | 'isImplausible' | 'facts' | 'countedTokens'>;

/**
 * The usage of a streamed reply, complete or cut: as reported by the provider, else as counted by us.
 * @param reply null: nothing of the reply was read.
 * @param replyBytes as received from the upstream.
 */
export function streamUsage(
  status: number | undefined,
  call: CallSize,
  reply: StreamedReply | null,
  replyBytes: number,
): ReplyUsage {
  if (reply === null || status === undefined) return promptUsage(call);
  const { usage, countedTokens: output, facts } = reply;
  const isImplausible = reply.isImplausible || (usage !== null && !isPlausible(usage, call, replyBytes));
  // A provider that reports no output beside a text that was relayed is not believed.
  if (usage && !isImplausible && (usage.output > 0 || output === 0))
    return { status, usage, source: 'provider', facts };
  if (call.unreported) return { status, ...call.unreported(output), facts };
  const prompt = isImplausible ? null : (reply.promptUsage ?? promptOf(usage));
  return {
    status,
    usage: { ...NOTHING, input: call.promptEstimate, ...prompt, output },
    source: isImplausible ? 'implausible' : 'counted',
    facts,
  };
}

/** The end of a call by a fault of the relay: of its streamed reply no more is known than our count. */
export function faultEnd(status: number, promptEstimate: number, output: number): CallEnd {
  const usage = { ...NOTHING, input: promptEstimate, output };
  return { status, usage, source: 'counted', facts: NO_FACTS, reason: 'internal_error', firstByteMs: null };
}

/**
 * The usage of a JSON reply: as reported by the provider, else estimated from the size of its output.
 * @param replyBytes as received from the upstream.
 */
export function jsonUsage(
  status: number,
  call: CallSize,
  reply: Pick<JsonReply, 'usage' | 'promptUsage' | 'isImplausible' | 'facts' | 'outputBytes'>,
  replyBytes: number,
): ReplyUsage {
  const { usage, facts, promptUsage: prompt } = reply;
  const isImplausible = reply.isImplausible || (usage !== null && !isPlausible(usage, call, replyBytes));
  if (usage && !isImplausible) return { status, usage, source: 'provider', facts };
  const output = Math.ceil(reply.outputBytes() / BYTES_PER_TOKEN);
  if (call.unreported) return { status, ...call.unreported(output), facts };
  return {
    status,
    usage: { ...NOTHING, input: call.promptEstimate, ...(isImplausible ? null : prompt), output },
    source: isImplausible ? 'implausible' : 'estimated',
    facts,
  };
}

/** Whether the provider reports a prompt without files and without what its own tools found. */
export function isAllText({ source, usage: { details } }: ReplyUsage): boolean {
  if (source !== 'provider' || details === undefined) return source === 'provider';
  const { audio_input_tokens, image_input_tokens, web_searches, tool_calls } = details;
  return !(audio_input_tokens || image_input_tokens || web_searches || tool_calls);
}

/** The prompt of a usage whose output is not believed. */
const promptOf = (usage: Usage | null): Partial<Usage> | null =>
  usage && {
    input: usage.input,
    cached: usage.cached,
    ...(usage.cacheWrite && { cacheWrite: usage.cacheWrite }),
  };

/**
 * The end of the last attempt, as the end of the call.
 * @param hasStatus whether the client received a status: to one that disconnected before, none was sent,
 * whatever followed.
 * @param beforeMs duration of the previous attempts and pauses.
 */
export function endSeenByClient(end: CallEnd, hasStatus: boolean, beforeMs: number): CallEnd {
  const status = end.reason === 'client_disconnected' && !hasStatus ? CLIENT_CLOSED_STATUS : end.status;
  if (status === end.status && (beforeMs === 0 || end.firstByteMs === null)) return end;
  return { ...end, status, firstByteMs: end.firstByteMs === null ? null : end.firstByteMs + beforeMs };
}
