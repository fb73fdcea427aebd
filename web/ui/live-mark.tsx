import { useFeedState } from '../lib/feed/use-feed.ts';

const BEHIND_MS = 3_000;

/** The state of the live feed. */
export function LiveMark({ isPaused = false }: { /** The member paused the page. */ isPaused?: boolean }) {
  const { status, behindMs } = useFeedState();
  const isBehind = status === 'live' && behindMs > BEHIND_MS;
  const [text, dot] = isPaused
    ? ['Paused', 'bg-line-strong']
    : isBehind
      ? [`${Math.round(behindMs / 1_000)} s behind`, 'bg-warn']
      : {
          connecting: ['Connecting…', 'bg-line-strong'] as const,
          live: ['Live', 'bg-success'] as const,
          reconnecting: ['Reconnecting…', 'bg-warn'] as const,
          ended: ['Offline', 'bg-line-strong'] as const,
        }[status];
  return (
    <span role="status" className="inline-flex items-center gap-1.5 text-muted">
      <span aria-hidden="true" className={`size-2 rounded-full ${dot}`} />
      {text}
    </span>
  );
}
