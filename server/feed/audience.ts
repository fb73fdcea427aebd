import { matches } from '#server/contract/filter.ts';
import type { FrameOf, LiveMessage } from '#server/contract/frames.ts';
import { RequestFilter } from '#server/contract/requests.ts';
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
 * Whether a frame is sent to an audience. A filter for running calls includes their settled frames, which
 * remove calls from that list.
 */
export function wants({ scope, filter }: Audience, frame: CallFrame): boolean {
  const isEnding = frame.type === 'settled' && filter.outcome === 'running';
  return (
    isWithin(scope, frame) && matches(isEnding ? { ...filter, outcome: undefined } : filter, rowOf(frame))
  );
}

/** Whether a settled or rejected call matches the filter. */
export function counts({ scope, filter }: Audience, frame: CallFrame): boolean {
  return isWithin(scope, frame) && matches(filter, rowOf(frame));
}

function isWithin({ account, key }: Scope, frame: CallFrame): boolean {
  return (account === null || account === frame.account) && (key === null || key === frame.key);
}

/** The fields that the filter reads, as in the request's row. */
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
