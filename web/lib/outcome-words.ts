import type { Outcome } from '#server/contract/requests.ts';

/** What people call how a request stands. Pure. */
export const OUTCOME_WORDS: Record<Outcome | 'running', string> = {
  running: 'Running',
  completed: 'Completed',
  refused: 'Refused',
  client_gone: 'Client left',
  upstream_failed: 'Upstream failed',
  cut_short: 'Cut short',
  relay_failed: 'Relay failed',
};
