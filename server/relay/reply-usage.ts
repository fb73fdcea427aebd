import type { EndReason, UsageSource } from '#db/events/events.ts';
import type { Usage } from '#db/money.ts';
import { BYTES_PER_TOKEN } from '#server/wire/bounds.ts';
import type { SseReader } from '#server/wire/sse.ts';
import type { ReplyHead } from '#server/relay/reply-head.ts';

/** What a call has used, as far as is known, and how it is known. Pure. */
export type ReplyUsage = {
  /** The status the client was given; 499 when it left before there was one. */
  status: number;
  usage: Usage;
  source: UsageSource;
};

/** How a call ended. */
export type CallEnd = ReplyUsage & { reason: EndReason; firstByteMs: number | null };

const NOTHING: Usage = { input: 0, cached: 0, output: 0, reasoning: 0 };
const CLIENT_CLOSED_STATUS = 499;
/** The upstream did no work for it. */
export function noUsage(): ReplyUsage {
  return { status: CLIENT_CLOSED_STATUS, usage: NOTHING, source: 'none' };
}

/** The upstream had the request and nothing of its reply was given: it may well charge for the prompt. */
function spentUnseen(promptEstimate: number): ReplyUsage {
  return { status: CLIENT_CLOSED_STATUS, usage: { ...NOTHING, input: promptEstimate }, source: 'estimated' };
}

/**
 * Of a call that the client is refused: an upstream that had begun a good reply has worked, and nobody knows
 * how much.
 */
export function usageBeforeReply(form: ReplyHead['form'] | undefined, promptEstimate: number): ReplyUsage {
  return form === 'json' || form === 'sse' ? spentUnseen(promptEstimate) : noUsage();
}

/**
 * A streamed reply that went through, whole or not: what the provider reported, else what was counted.
 * @param reply null: nothing of one was read.
 */
export function usageOfStream(
  status: number | undefined,
  promptEstimate: number,
  reply: Pick<SseReader, 'usage' | 'promptUsage' | 'countedTokens'> | null,
): ReplyUsage {
  if (reply === null || status === undefined) return spentUnseen(promptEstimate);
  if (reply.usage) return { status, usage: reply.usage, source: 'provider' };
  return {
    status,
    usage: { ...NOTHING, input: promptEstimate, ...reply.promptUsage, output: reply.countedTokens },
    source: 'counted',
  };
}

/** A JSON reply: what the provider reported, else by the size of what was written. */
export function usageOfJson(
  status: number,
  usage: Usage | null,
  promptEstimate: number,
  outputBytes: number,
): ReplyUsage {
  if (usage) return { status, usage, source: 'provider' };
  const output = Math.ceil(outputBytes / BYTES_PER_TOKEN);
  return { status, usage: { ...NOTHING, input: promptEstimate, output }, source: 'estimated' };
}

/**
 * An ending of the last try, as one of the call.
 * @param isTold whether the client has had a status: who left before was given none, whatever came after.
 * @param beforeMs how long the tries before took.
 */
export function endSeenByClient(ending: CallEnd, isTold: boolean, beforeMs: number): CallEnd {
  const status = ending.reason === 'client_gone' && !isTold ? CLIENT_CLOSED_STATUS : ending.status;
  if (status === ending.status && (beforeMs === 0 || ending.firstByteMs === null)) return ending;
  return {
    ...ending,
    status,
    firstByteMs: ending.firstByteMs === null ? null : ending.firstByteMs + beforeMs,
  };
}
