import { useState } from 'react';
import type { Frame } from '#server/contract/frames.ts';
import type { EventSearch } from '../../lib/search/events.ts';
import { showCount } from '../../lib/format/show.ts';
import { useFrames } from '../../lib/feed/use-feed.ts';
import { Button } from '../../ui/button.tsx';

/** Larger counts are not shown. */
const COUNT_MAX = 1_000;

/** The type of the event behind a frame, or null. */
function typeOf(frame: Frame): string | null {
  switch (frame.type) {
    case 'started':
      return 'request.accepted';
    case 'settled':
      return frame.end_reason === 'abandoned' ? 'request.abandoned' : 'request.settled';
    case 'refused':
      return 'request.rejected';
    case 'corrected':
      return 'usage.adjusted';
    case 'notice':
      return frame.kind;
    default:
      return null;
  }
}

/** Whether the event behind a frame matches the page's filter. */
function fits(frame: Frame, { type, account, key, request }: EventSearch): boolean {
  const found = typeOf(frame);
  if (found === null || (type !== undefined && found !== type && !found.startsWith(`${type}.`))) return false;
  const {
    account: ofAccount,
    key: ofKey,
    request: ofRequest,
  } = frame as { account?: string; key?: string; request?: string };
  return (
    (account === undefined || account === ofAccount) &&
    (key === undefined || key === ofKey) &&
    (request === undefined || request === ofRequest)
  );
}

/** Counts events appended since the list was fetched and loads them when pressed. */
export function NewEvents({ search, onShow }: { search: EventSearch; onShow: () => void }) {
  const [count, setCount] = useState(0);
  const [isUnknown, setUnknown] = useState(false);
  // The feed does not name the member of a change, and a list with an end has no new events.
  const isLive = search.member === undefined && search.at === undefined && search.to === undefined;
  useFrames((frames) => {
    if (!isLive || count >= COUNT_MAX) return;
    // The missed events may or may not match.
    if (frames.some(({ type }) => type === 'gap')) setUnknown(true);
    const found = frames.filter((frame) => fits(frame, search)).length;
    if (found > 0) setCount(count + found);
  });
  return (
    <Button
      icon="refresh"
      disabled={count === 0 && !isUnknown}
      className="min-w-28"
      onClick={() => {
        setCount(0);
        setUnknown(false);
        onShow();
      }}
    >
      {count >= COUNT_MAX ? '1,000+ new' : isUnknown ? 'Refresh' : `${showCount(count)} new`}
    </Button>
  );
}
