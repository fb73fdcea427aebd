/**
 * How a try of a call at an upstream went, from the word that the log and the health of upstreams have for
 * it. Pure.
 */

const WORDS: Readonly<Record<string, string>> = {
  completed: 'delivered',
  unreachable: 'no connection',
  address_refused: 'its address is not allowed',
  timed_out: 'no answer in time',
  cut: 'its reply broke off',
  upstream_disconnected: 'its reply broke off',
  unreadable: 'its reply could not be read',
  error_event: 'its reply was an error',
  not_said: 'the call can’t be said in its protocol',
  begun: 'its reply had begun and failed',
  client_gone: 'the client left',
  package: 'its package can’t be used',
};

/** Such as `status_503`. */
export function tryWords(outcome: string): string {
  const [, status] = /^status_(\d{3})$/.exec(outcome) ?? [];
  return status === undefined ? (WORDS[outcome] ?? outcome.replaceAll('_', ' ')) : `it answered ${status}`;
}
