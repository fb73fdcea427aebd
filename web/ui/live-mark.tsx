import { useFeedState } from '../lib/use-feed.ts';

const BEHIND_MS = 3_000;

/** Whether what is shown is live, and if not, what is going on. */
export function LiveMark({
  isHeld = false,
}: {
  /** The page holds still because somebody wants it to. */ isHeld?: boolean;
}) {
  const { status, behindMs } = useFeedState();
  const isBehind = status === 'live' && behindMs > BEHIND_MS;
  const [text, dot] = isHeld
    ? ['Paused', 'bg-line-strong']
    : isBehind
      ? [`${Math.round(behindMs / 1_000)} s behind`, 'bg-warn']
      : {
          connecting: ['Connecting…', 'bg-line-strong'] as const,
          live: ['Live', 'bg-good'] as const,
          reconnecting: ['Reconnecting…', 'bg-warn'] as const,
          ended: ['Not live', 'bg-line-strong'] as const,
        }[status];
  return (
    <span role="status" className="inline-flex items-center gap-1.5 text-muted">
      <span aria-hidden="true" className={`size-2 rounded-full ${dot}`} />
      {text}
    </span>
  );
}
