import type { SinkKind } from '#db/spend/sink-kinds.ts';
import { RESTORED_FAULT, type SinkStatus, stateOfSink } from '#db/spend/sink-status.ts';
import type { SinkRow } from '#server/contract/sinks.ts';

/** A sink as lists show it, without its configuration. Pure. */
export function sinkRow(sink: SinkStatus): SinkRow {
  const { id, name, kind, account, position, behind, behind_ms, delivered, failures, fault } = sink;
  const { created_at, paused_at, delivered_at, failing_since, retry_at } = sink;
  const isRestored = paused_at !== null && fault === RESTORED_FAULT;
  return {
    ...{ id, name, account, position, behind, behind_ms, delivered, failures },
    kind: kind as SinkKind,
    state: stateOfSink(sink),
    created_at: created_at.toISOString(),
    paused_at: paused_at?.toISOString() ?? null,
    restored: isRestored,
    delivered_at: delivered_at?.toISOString() ?? null,
    failing_since: failing_since?.toISOString() ?? null,
    error: isRestored ? null : fault,
    next_attempt_at: paused_at === null ? (retry_at?.toISOString() ?? null) : null,
    test: testOf(sink),
  };
}

function testOf({ test_requested_at, tested_at, test_fault }: SinkStatus): SinkRow['test'] {
  if (test_requested_at === null) return null;
  if (tested_at === null) return { state: 'pending', at: test_requested_at.toISOString(), error: null };
  const state = test_fault === null ? 'accepted' : 'failed';
  return { state, at: tested_at.toISOString(), error: test_fault };
}
