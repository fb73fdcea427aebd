import type { Placed } from '#db/events/events.ts';
import { readSubject, requireWhole, UnreadableEventError } from '#db/log/read.ts';
import { RESUME_EVENTS_MAX, RESUME_PAGE_EVENTS, RESUME_POSITIONS_MAX } from '#server/feed/bounds.ts';
import type { FeedStore } from '#server/feed/store.ts';
import { LivePage, type PlanOf } from '#server/feed/page.ts';
import type { Viewer } from '#server/feed/viewer.ts';

/** The positions above `after` up to `upTo`: what a viewer missed. */
export type Missed = { after: number; upTo: number };

/**
 * Sends a viewer what it missed, from the log, and lets it go on live. What comes meanwhile waits
 * with the viewer. One that missed too much, or whose store can't say now, is told of a gap.
 */
export async function catchUp(
  viewer: Viewer,
  missed: Missed,
  store: FeedStore,
  planOf: PlanOf,
): Promise<void> {
  try {
    viewer.caughtUp(await sendAll(viewer, missed, store, planOf));
  } catch {
    // The store is away, which the tail of the log tells, or what was missed is in the archive: a gap.
    viewer.caughtUp(false);
  }
}

async function sendAll(
  viewer: Viewer,
  { after, upTo }: Missed,
  store: FeedStore,
  planOf: PlanOf,
): Promise<boolean> {
  if (upTo - after > RESUME_POSITIONS_MAX) return false;
  const { audience } = viewer;
  let position = after;
  for (let sent = 0; sent < RESUME_EVENTS_MAX; sent += RESUME_PAGE_EVENTS) {
    const range = { after: position, upTo };
    const rows = await store.run((client) => readSubject(client, audience.scope, range, RESUME_PAGE_EVENTS));
    const events = rows.filter((row): row is Placed => !(row instanceof UnreadableEventError));
    const messages = events.length === 0 ? [] : new LivePage(events, planOf).messagesFor(audience, position);
    for (const message of messages) {
      // What it may see can have changed meanwhile.
      if (viewer.audience !== audience) return false;
      await viewer.sendMissed(message);
    }
    if (rows.length < RESUME_PAGE_EVENTS) {
      // Asked last: what was whole afterwards was whole before.
      await store.run((client) => requireWhole(client, after));
      return true;
    }
    position = rows.at(-1)?.position ?? upTo;
  }
  return false;
}
