/** Display names of attempt outcomes, as used in events and upstream health. Pure. */

const WORDS: Readonly<Record<string, string>> = {
  completed: 'delivered',
  unreachable: 'connection failed',
  address_refused: 'address not allowed',
  timed_out: 'timed out',
  cut: 'disconnected during reply',
  upstream_disconnected: 'disconnected during reply',
  unreadable: 'invalid reply',
  error_event: 'error event in reply',
  unsupported: 'not supported by its protocol',
  reply_begun: 'failed during reply',
  reference_not_found: 'stored content not found',
  client_disconnected: 'client disconnected',
  package: 'package unavailable',
};

/** Such as `status_503`. */
export function attemptLabel(outcome: string): string {
  const [, status] = /^status_(\d{3})$/.exec(outcome) ?? [];
  return status === undefined ? (WORDS[outcome] ?? outcome.replaceAll('_', ' ')) : `status ${status}`;
}
