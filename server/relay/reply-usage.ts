import type { EndReason, UsageSource } from '#db/events/events.ts';
import type { Usage } from '#db/money.ts';
import { BYTES_PER_TOKEN } from '#server/wire/bounds.ts';
import type { JsonReply } from '#server/providers/provider.ts';
import type { SseReader } from '#server/wire/sse.ts';
import type { ReplyHead } from '#server/relay/reply-head.ts';

/** The usage of a call as far as it is known, and how it is known. Pure. */
export type ReplyUsage = {
  /** The status that the client received; 499 when it disconnected before there was one. */
  status: number;
  usage: Usage;
  source: UsageSource;
};

/** How a call ended. `firstByteMs`: from the request to the head of the reply; null: there was no head. */
export type CallEnd = ReplyUsage & { reason: EndReason; firstByteMs: number | null };

const NOTHING: Usage = { input: 0, cached: 0, output: 0, reasoning: 0 };
const CLIENT_CLOSED_STATUS = 499;

/** The end of a call that no upstream has worked for. @param status absent: the client has disconnected. */
export function unsentEnd(reason: EndReason, status = CLIENT_CLOSED_STATUS): CallEnd {
  return { status, usage: NOTHING, source: 'none', reason, firstByteMs: null };
}

/** The upstream had the request, and nothing of its reply was read: it may well charge for the prompt. */
function promptUsage(promptEstimate: number): ReplyUsage {
  return { status: CLIENT_CLOSED_STATUS, usage: { ...NOTHING, input: promptEstimate }, source: 'estimated' };
}

/**
 * The usage of an attempt whose client receives an error instead of a reply: an upstream whose successful
 * reply had begun has worked, by an unknown amount.
 */
export function errorUsage(form: ReplyHead['form'] | undefined, promptEstimate: number): ReplyUsage {
  if (form === 'json' || form === 'sse') return promptUsage(promptEstimate);
  return { status: CLIENT_CLOSED_STATUS, usage: NOTHING, source: 'none' };
}

/**
 * The usage of a streamed reply, complete or cut: as reported by the provider, else as counted by us.
 * @param reply null: nothing of the reply was read.
 */
export function streamUsage(
  status: number | undefined,
  promptEstimate: number,
  reply: Pick<SseReader, 'usage' | 'promptUsage' | 'countedTokens'> | null,
): ReplyUsage {
  if (reply === null || status === undefined) return promptUsage(promptEstimate);
  const { usage, countedTokens: output } = reply;
  // A provider that reports no output beside a text that was relayed is not believed.
  if (usage && (usage.output > 0 || output === 0)) return { status, usage, source: 'provider' };
  const prompt = usage ? { input: usage.input, cached: usage.cached } : reply.promptUsage;
  return {
    status,
    usage: { ...NOTHING, input: promptEstimate, ...prompt, output },
    source: 'counted',
  };
}

/** The usage of a JSON reply: as reported by the provider, else estimated from the size of its output. */
export function jsonUsage(
  status: number,
  promptEstimate: number,
  { usage, promptUsage: reported, outputBytes }: Pick<JsonReply, 'usage' | 'promptUsage' | 'outputBytes'>,
): ReplyUsage {
  if (usage) return { status, usage, source: 'provider' };
  const output = Math.ceil(outputBytes / BYTES_PER_TOKEN);
  return { status, usage: { ...NOTHING, input: promptEstimate, ...reported, output }, source: 'estimated' };
}

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
