import type { SinkRow } from '#server/contract/sinks.ts';
import { showCounted, showDuration } from '../lib/format/show.ts';
import { Badge } from './layout/parts.tsx';
import { Ago } from './when.tsx';

/** The state of a sink and its lag, as several pages show them. */

/** An older undelivered event is notable; the alert is raised at five minutes. */
const LAG_SHOWN_MS = 60_000;

export function SinkState({ state, restored }: Pick<SinkRow, 'state' | 'restored'>) {
  switch (state) {
    case 'active':
      return <Badge tone="success">Active</Badge>;
    case 'failing':
      return <Badge tone="danger">Failing</Badge>;
    case 'paused':
      return restored ? <Badge tone="warn">Paused by restore</Badge> : <Badge>Paused</Badge>;
  }
}

/** Why the last delivery failed and when the next one is due; nothing of a sink without a failure. */
export function SinkFailure({
  sink: { state, failures, error, next_attempt_at: nextAt },
}: {
  sink: SinkRow;
}) {
  if (state !== 'failing') return null;
  return (
    <p className="text-xs text-muted">
      {showCounted(failures, 'failure')} in a row
      {error !== null && (
        <>
          , <code className="font-mono wrap-anywhere text-danger">{error}</code>
        </>
      )}
      {nextAt !== null && (
        <>
          . Next attempt <Ago time={nextAt} />
        </>
      )}
    </p>
  );
}

/** How many events of the log it lacks, and how old the oldest of them is. */
export function SinkLag({ behind, behind_ms: ms }: Pick<SinkRow, 'behind' | 'behind_ms'>) {
  const text = showCounted(behind, 'event');
  if (behind === 0) return <span className="text-muted">None</span>;
  return (
    <>
      {ms < LAG_SHOWN_MS ? (
        <span className="whitespace-nowrap">{text}</span>
      ) : (
        <Badge tone="warn">{text}</Badge>
      )}
      <p className="text-xs whitespace-nowrap text-muted">{showDuration(ms)} old</p>
    </>
  );
}
