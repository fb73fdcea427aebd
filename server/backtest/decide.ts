import type { EventOf } from '#db/events/events.ts';
import type { SubjectLimits } from '#db/limits/limits.ts';
import type { CostBound } from '#db/pricing/bound.ts';
import { chargeBound } from '#db/pricing/charge.ts';
import type { CallTerms, Candidate } from '#server/backtest/candidate.ts';
import type { PastOf } from '#server/backtest/history.ts';
import type { ErrorCode } from '#server/errors/api-error.ts';
import type { CallNeed } from '#server/limits/waiting-call.ts';
import { TEMPLATE_TOKENS_MAX } from '#server/limits/bounds.ts';
import { boundsCost, callNeed, countsCost, hasHardLimit } from '#server/limits/call-need.ts';
import type { Access } from '#server/read-model/access.ts';
import { BYTES_PER_TOKEN, TOKENS_MAX } from '#server/wire/bounds.ts';

/** The permissions and the reservation of a recorded call under other terms. Pure. */

type Recorded = EventOf<'request.accepted' | 'request.rejected'>;

/** What a call reserves, and its size. */
export type SizedCall = {
  need: CallNeed;
  isHard: boolean;
  promptTokens: number;
  ownLimit: number | null;
  cost: CostBound | null;
};

const NO_NEED: CallNeed = { minimum: { tokens: 0, cost: 0 }, wanted: { tokens: 0, cost: 0 } };

/**
 * The reservation of a call by the sizes in its event. While its instance has learned the calls that it had,
 * the expected reply is the recorded one; afterwards it follows from those that were admitted again.
 */
export function sizeOf(
  candidate: Candidate,
  event: Recorded,
  terms: CallTerms,
  past: PastOf,
  subjects: readonly SubjectLimits[],
  minute: number,
): SizedCall {
  const { max_output_tokens: ownLimit = null } = event;
  if (subjects.length === 0) return { need: NO_NEED, isHard: false, promptTokens: 0, ownLimit, cost: null };
  const { price } = terms;
  const isHard = subjects.some(hasHardLimit);
  const wasHard = candidate.hasOtherTerms ? wasUnderHardLimit(candidate, event, terms) : isHard;
  const promptTokens = Math.min(TOKENS_MAX, promptOf(event, past, isHard, wasHard));
  const isCounted = price !== null && subjects.some(countsCost);
  const cost = isCounted ? chargeBound(price, isHard ? 'highest' : 'likely', promptTokens, minute) : null;
  const expectedTokens = expectedReply(event, past, wasHard);
  const size = { promptTokens, expectedTokens, choices: 1, ownLimit };
  return { need: callNeed(size, subjects, isHard, cost), isHard, promptTokens, ownLimit, cost };
}

/** Whether the recorded estimate of the prompt is an upper bound. */
function wasUnderHardLimit({ recorded }: Candidate, event: Recorded, { hadHardLimit }: CallTerms): boolean {
  if (!hadHardLimit) return false;
  const key = recorded.key(event.key);
  return key !== undefined && recorded.limitsOf(key, event).some(hasHardLimit);
}

/** A bound that wasn't recorded is that of text: one token for each byte. */
function promptOf(event: Recorded, past: PastOf, isHard: boolean, wasHard: boolean): number {
  const { prompt_estimate: recorded, body_bytes: bytes } = event;
  if (isHard === wasHard && recorded !== undefined) return recorded;
  if (bytes === undefined) return past.mean.input;
  if (isHard) return bytes + TEMPLATE_TOKENS_MAX;
  return Math.min(recorded ?? bytes, Math.ceil(bytes / BYTES_PER_TOKEN));
}

function expectedReply(event: Recorded, past: PastOf, wasHard: boolean): number {
  const { hold_tokens: hold, prompt_estimate: prompt } = event;
  if (wasHard || hold === undefined || prompt === undefined || past.isDiverged) return past.replyTokens;
  return hold - prompt;
}

/** The error of a call that the terms don't permit; null: they permit it, or terms don't decide it. */
export function forbiddenBy(
  candidate: Candidate,
  call: Pick<Recorded, 'account' | 'key' | 'route'>,
  terms: CallTerms,
  subjects: readonly SubjectLimits[],
): ErrorCode | null {
  let error = terms.errors.get(call.route);
  if (error === undefined) terms.errors.set(call.route, (error = permissionError(candidate, call, terms)));
  if (error !== null) return error;
  return terms.lacksPrice && subjects.some(boundsCost) ? 'model_not_priced' : null;
}

function permissionError(
  candidate: Candidate,
  { account: id, key: keyId, route }: Pick<Recorded, 'account' | 'key' | 'route'>,
  { model }: CallTerms,
): ErrorCode | null {
  const account = candidate.account(id);
  const key = candidate.recorded.key(keyId);
  if (account === undefined || key === undefined) return null;
  const accesses = [candidate.accountAccess(account), candidate.keyAccess(key)];
  const permits = (permitted: (access: Access) => boolean): boolean =>
    accesses.every((access) => access === null || permitted(access));
  if (!permits(({ isActive }) => isActive)) return 'plan_not_active';
  if (!permits(({ permissions }) => permissions?.routes?.has(route) ?? true)) return 'route_not_permitted';
  if (!permits(({ permissions }) => permissions?.models?.has(model) ?? true)) return 'model_not_permitted';
  return null;
}
