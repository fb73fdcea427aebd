import type { RequestRow } from '#server/contract/requests.ts';
import { OUTCOME_WORDS } from '../../lib/format/outcomes.ts';
import { showCount } from '../../lib/format/show.ts';

const LOOKS: Record<RequestRow['outcome'], { text: string; dot: string }> = {
  running: { text: 'text-accent', dot: 'bg-accent motion-safe:animate-pulse' },
  completed: { text: 'text-ink', dot: 'bg-success' },
  refused: { text: 'text-warn', dot: 'bg-warn' },
  client_disconnected: { text: 'text-muted', dot: 'bg-line-strong' },
  upstream_failed: { text: 'text-danger', dot: 'bg-danger' },
  cut_short: { text: 'text-warn', dot: 'bg-warn' },
  relay_failed: { text: 'text-danger', dot: 'bg-danger' },
};

/** Outcome, status code, and the number of identical rejections. */
export function OutcomeOf({
  row: { outcome, status, rejected_count, observed },
}: {
  row: Pick<RequestRow, 'outcome' | 'status' | 'rejected_count' | 'observed'>;
}) {
  const { text, dot } = LOOKS[outcome];
  return (
    <span className={`inline-flex items-center gap-1.5 whitespace-nowrap ${text}`}>
      <span aria-hidden="true" className={`size-2 shrink-0 rounded-full ${dot}`} />
      {OUTCOME_WORDS[outcome]}
      {status !== null && <span className="text-muted">{status}</span>}
      {rejected_count !== null && rejected_count > 1 && (
        <span className="text-muted">× {showCount(rejected_count)}</span>
      )}
      {observed !== null && (
        <span title="An observed limit would have rejected it">
          <span aria-hidden="true" className="block size-2.5 rounded-full border-2 border-warn" />
          <span className="sr-only">Would be rejected</span>
        </span>
      )}
    </span>
  );
}
