import { matches } from '#server/contract/filter.ts';
import type { FrameOf, LiveMessage } from '#server/contract/frames.ts';
import { RequestFilter } from '#server/contract/requests.ts';
import type { Scope } from '#server/read/scope.ts';

/**
 * Who gets which frames. Viewers of one audience get the same bytes, so that a thousand of them
 * cost one serialisation. Pure.
 */
export type Audience = {
  /** Equal for equal audiences. */
  readonly id: string;
  readonly scope: Scope;
  readonly filter: RequestFilter;
  /** People who are signed in are told of more than programs with a key. */
  readonly isSignedIn: boolean;
};

/** A frame about one call, or about several that were refused alike. */
export type CallFrame = FrameOf<'started' | 'progress' | 'settled' | 'refused'>;

const FILTER_FIELDS = Object.keys(RequestFilter.shape) as (keyof RequestFilter)[];

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
 * Whether a frame is sent to an audience. Who asks for running calls is told of their endings, too:
 * they are what takes a call off that list.
 */
export function wants({ scope, filter }: Audience, frame: CallFrame): boolean {
  const isEnding = frame.type === 'settled' && filter.outcome === 'running';
  return (
    isWithin(scope, frame) && matches(isEnding ? { ...filter, outcome: undefined } : filter, rowOf(frame))
  );
}

/** Whether a call's ending, or its refusal, is one of those that the filter means. */
export function counts({ scope, filter }: Audience, frame: CallFrame): boolean {
  return isWithin(scope, frame) && matches(filter, rowOf(frame));
}

function isWithin({ account, key }: Scope, frame: CallFrame): boolean {
  return (account === null || account === frame.account) && (key === null || key === frame.key);
}

/** What the filter looks at, as the request's row will have it. */
function rowOf(frame: CallFrame): Parameters<typeof matches>[1] {
  const { account, key } = frame;
  switch (frame.type) {
    case 'started':
    case 'progress':
      return { account, key, model: frame.model, outcome: 'running', status: null };
    case 'settled':
      return { account, key, model: frame.model, outcome: frame.outcome, status: frame.status ?? null };
    case 'refused':
      return { account, key, model: null, outcome: 'refused', status: frame.status };
  }
}

/** A message as it goes out. */
export function messageBytes(position: number, at: string, frames: readonly string[]): Buffer {
  return Buffer.from(`{"position":${position},"at":"${at}","frames":[${frames.join(',')}]}`);
}

/** The same of frames that nobody else is sent. */
export function messageOf({ position, at, frames }: LiveMessage): Buffer {
  return messageBytes(
    position,
    at,
    frames.map((frame) => JSON.stringify(frame)),
  );
}
