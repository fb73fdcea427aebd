import type { EndReason, UsageSource } from '#db/events.ts';
import type { Usage } from '#db/money.ts';
import { BYTES_PER_TOKEN } from '#server/bounds.ts';

/** What a call has used, as far as is known, and how it is known. Pure. */
export type Spent = {
  /** The status the client was given; 499 when it left before there was one. */
  status: number;
  usage: Usage;
  source: UsageSource;
};

/** How a call ended. */
export type Ending = Spent & { reason: EndReason; firstByteMs: number | null };

const NOTHING: Usage = { input: 0, cached: 0, output: 0, reasoning: 0 };
const CLIENT_CLOSED_STATUS = 499;
/** The upstream did no work for it. */
export function spentNothing(): Spent {
  return { status: CLIENT_CLOSED_STATUS, usage: NOTHING, source: 'none' };
}

/** The upstream had the request and nothing of its reply was given: it may well charge for the prompt. */
export function spentUnseen(promptEstimate: number): Spent {
  return { status: CLIENT_CLOSED_STATUS, usage: { ...NOTHING, input: promptEstimate }, source: 'estimated' };
}

/** A streamed reply that went through, whole or not: what the provider reported, else what was counted. */
export function spentOnReply(
  status: number,
  promptEstimate: number,
  reply: { usage: Usage | null; countedTokens: number },
): Spent {
  if (reply.usage) return spentAsTold(status, reply.usage);
  return { status, usage: { ...NOTHING, input: promptEstimate, output: reply.countedTokens }, source: 'counted' };
}

/** A JSON reply: what the provider reported. */
export function spentAsTold(status: number, usage: Usage): Spent {
  return { status, usage, source: 'provider' };
}

/** A JSON reply whose provider said nothing: by its size. */
export function spentBySize(status: number, promptEstimate: number, bytes: number): Spent {
  const output = Math.ceil(bytes / BYTES_PER_TOKEN);
  return { status, usage: { ...NOTHING, input: promptEstimate, output }, source: 'estimated' };
}
