import { FILTER_FIELDS, type FilteredCall, matchesCall } from '#db/fold/call-filter.ts';
import type { FrameOf, LiveMessage } from '#server/contract/frames.ts';
import type { RequestFilter } from '#server/contract/requests.ts';
import type { Scope } from '#server/read/scope.ts';

/**
 * The scope and filter of frames. Viewers of one audience get the same bytes, so that a thousand of them cost
 * one serialization. Pure.
 */
export type Audience = {
  /** Equal for equal audiences. */
  readonly id: string;
  readonly scope: Scope;
  readonly filter: RequestFilter;
  /** Signed-in members see more notices than holders of a key. */
  readonly isSignedIn: boolean;
};

/** A frame about one call, or about several identical rejections. */
export type CallFrame = FrameOf<'started' | 'progress' | 'settled' | 'refused' | 'corrected'>;

export function audienceOf(scope: Scope, filter: RequestFilter, isSignedIn = false): Audience {
  const id = JSON.stringify([
    isSignedIn,
    scope.account,
    scope.key,
    ...FILTER_FIELDS.map((field) => filter[field] ?? null),
  ]);
  return { id, scope, filter, isSignedIn };
}

/**
 * Whether a frame is sent to an audience. A filter for running calls includes their settled frames, which
 * remove calls from that list.
 */
export function wants({ scope, filter }: Audience, frame: CallFrame): boolean {
  const isEnding = frame.type === 'settled' && filter.outcome === 'running';
  return isWithin(scope, frame) && matchesFrame(isEnding ? { ...filter, outcome: undefined } : filter, frame);
}

/** Whether a settled or rejected call matches the filter. */
export function counts({ scope, filter }: Audience, frame: CallFrame): boolean {
  return isWithin(scope, frame) && matchesFrame(filter, frame);
}

function isWithin({ account, key }: Scope, frame: CallFrame): boolean {
  return (account === null || account === frame.account) && (key === null || key === frame.key);
}

/** Whether the call of a frame, as of then, matches. */
function matchesFrame(filter: RequestFilter, frame: CallFrame): boolean {
  // Progress doesn't say whose call it is. Clients ignore progress of calls that they don't have.
  if (frame.type === 'progress') {
    const { account, key, model, outcome, status, upstream, error_code } = filter;
    return matchesCall({ account, key, model, outcome, status, upstream, error_code }, callOf(frame));
  }
  return matchesCall(filter, callOf(frame));
}

const UNKNOWN = {
  route: null,
  upstream: null,
  end_user: null,
  session: null,
  tags: [],
  status: null,
  error_code: null,
} as const satisfies Partial<FilteredCall>;

/** The fields that the filter reads, as in the request's row. */
function callOf(frame: CallFrame): FilteredCall {
  const { account, key, model = null } = frame;
  if (frame.type === 'progress') return { ...UNKNOWN, account, key, model, outcome: 'running' };
  const { route = null, end_user = null, session = null, tags = [] } = frame;
  const call: FilteredCall = {
    ...UNKNOWN,
    account,
    key,
    model,
    route,
    end_user,
    session,
    tags,
    outcome: 'running',
  };
  switch (frame.type) {
    case 'started':
      return call;
    case 'settled':
    case 'corrected':
      call.outcome = frame.outcome;
      call.status = frame.status ?? null;
      call.upstream = frame.upstream ?? null;
      return call;
    case 'refused':
      call.outcome = 'refused';
      call.status = frame.status;
      call.error_code = frame.error_code;
      return call;
  }
}

/** A serialized message. */
export function messageBytes(position: number, at: string, frames: readonly string[]): Buffer {
  return Buffer.from(`{"position":${position},"at":"${at}","frames":[${frames.join(',')}]}`);
}

/** A serialized message for one viewer only. */
export function messageOf({ position, at, frames }: LiveMessage): Buffer {
  return messageBytes(
    position,
    at,
    frames.map((frame) => JSON.stringify(frame)),
  );
}
