import type { Placed } from '#db/events/events.ts';
import { requireWhole, UnreadableEventError } from '#db/log/read.ts';
import { readSubject } from '#db/log/read-subject.ts';
import { RESUME_EVENTS_MAX, RESUME_PAGE_EVENTS, RESUME_POSITIONS_MAX } from '#server/feed/bounds.ts';
import type { FeedStore } from '#server/feed/store.ts';
import { LivePage, type PlanOf } from '#server/feed/page.ts';
import type { Viewer } from '#server/feed/viewer.ts';

/** The positions above `after` up to `upTo` that a viewer missed. */
export type Missed = { after: number; upTo: number };

/**
 * Sends a viewer the events that it missed, from the log; new ones are queued meanwhile. If it missed too
 * much, or the store is unavailable, it gets a gap.
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
    // The store is unavailable, which the tail reports, or the events are archived: send a gap.
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
      // The viewer's scope may have changed meanwhile.
      if (viewer.audience !== audience) return false;
      await viewer.sendMissed(message);
    }
    if (rows.length < RESUME_PAGE_EVENTS) {
      // Checked last: if the log is complete now, it was complete while it was read.
      await store.run((client) => requireWhole(client, after));
      return true;
    }
    position = rows.at(-1)?.position ?? upTo;
  }
  return false;
}
