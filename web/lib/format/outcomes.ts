import type { Outcome } from '#server/contract/requests.ts';

/** Display names of outcomes. Pure. */
export const OUTCOME_WORDS: Record<Outcome | 'running', string> = {
  running: 'Running',
  completed: 'Completed',
  refused: 'Rejected',
  client_disconnected: 'Client disconnected',
  upstream_failed: 'Upstream failed',
  cut_short: 'Stopped by limit',
  relay_failed: 'Relay failed',
};
