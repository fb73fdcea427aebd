import type { Frame, FrameOf } from '#server/contract/frames.ts';

/** The account's newest requests, from the live feed. Pure. */

export type SeenRequest = {
  request: string;
  key: string;
  /** Empty for a request rejected before its model was read. */
  model: string;
  at: string;
  /** The relay's running count; the final count comes with the end. */
  outputTokens: number;
  ending: FrameOf<'settled'> | FrameOf<'refused'> | null;
};

const SEEN_MAX = 5;

/** Applies frames to the list, newest first. Returns the same list if nothing changed. */
export function follow(
  calls: readonly SeenRequest[],
  frames: readonly Frame[],
  account: string,
): readonly SeenRequest[] {
  let seen = calls;
  for (const frame of frames) {
    if (!('account' in frame) || frame.account !== account) continue;
    if (frame.type === 'started' || frame.type === 'refused') {
      const { request, key, at } = frame;
      const isRefused = frame.type === 'refused';
      const call: SeenRequest = {
        request,
        key,
        at,
        model: isRefused ? '' : frame.model,
        outputTokens: 0,
        ending: isRefused ? frame : null,
      };
      seen = [call, ...seen.filter((each) => each.request !== request)].slice(0, SEEN_MAX);
    } else if (frame.type === 'progress' || frame.type === 'settled') {
      const known = seen.find(({ request }) => request === frame.request);
      // A late progress frame does not reopen an ended request.
      if (!known || known.ending !== null) continue;
      const next: SeenRequest = {
        ...known,
        outputTokens: frame.output_tokens ?? known.outputTokens,
        ending: frame.type === 'settled' ? frame : null,
      };
      seen = seen.map((each) => (each === known ? next : each));
    }
  }
  return seen;
}
