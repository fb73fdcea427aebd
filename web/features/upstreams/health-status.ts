import type { CredentialRow, UpstreamRow } from '#server/contract/upstreams.ts';
import { showCount, showSeconds } from '../../lib/format/show.ts';
import { attemptLabel } from '../../lib/format/attempts.ts';
import type { IconName } from '../../ui/icon.tsx';
import type { Tone } from '../../ui/layout/parts.tsx';

/** Health of upstreams and credentials in words. Pure. */

export type HealthStatus = {
  tone: Tone;
  icon: IconName;
  word: string;
  /** An explanation, or null. */ detail: string | null;
};

type Health = UpstreamRow['health'];

/** Also the status of an upstream without requests. */
const HEALTHY: HealthStatus = { tone: 'success', icon: 'check', word: 'Healthy', detail: null };

/** Whole seconds, with a non-breaking space. */
const seconds = (ms: number): string =>
  showSeconds(Math.max(1, Math.ceil(ms / 1_000)) * 1_000).replaceAll(' ', '\u00a0');

export function healthStatus({ state, problem, failures, open_ms: outMs }: Health): HealthStatus {
  const why = problem === null ? '' : ` (${attemptLabel(problem)})`;
  switch (state) {
    case 'healthy':
      return HEALTHY;
    case 'degraded':
      return {
        tone: 'warn',
        icon: 'warning',
        word: 'Degraded',
        detail:
          failures === 1
            ? `The last request failed${why}.`
            : `${showCount(failures)} consecutive failures${why}.`,
      };
    case 'open':
      return {
        tone: 'danger',
        icon: 'warning',
        word: 'Circuit open',
        detail: `Temporarily skipped${why}. Retries in ${seconds(outMs)}.`,
      };
    case 'half_open':
      return {
        tone: 'warn',
        icon: 'clock',
        word: 'Half-open',
        detail: `Testing with one request at a time${why}.`,
      };
  }
}

export const credentialStatus = ({ health }: CredentialRow): HealthStatus =>
  health === null
    ? {
        tone: 'danger',
        icon: 'warning',
        word: 'Can’t decrypt',
        detail: 'This server doesn’t have the master key for it. Run daybook doctor for details.',
      }
    : healthStatus(health);

/** The worst status of an upstream and its credentials that a request may meet. */
export function upstreamStatus({
  state,
  health,
  credentials,
}: Pick<UpstreamRow, 'state' | 'health' | 'credentials'>): HealthStatus {
  if (state === 'paused')
    return { tone: 'plain', icon: 'pause', word: 'Paused', detail: 'No requests are sent.' };
  if (state === 'no_credential')
    return {
      tone: 'danger',
      icon: 'key',
      word: 'No credential',
      detail: 'This server can’t decrypt any of its credentials, so no requests are sent.',
    };
  if (health.state === 'open' || health.state === 'half_open') return healthStatus(health);
  const out = credentials.filter((each) => each.health === null || each.health.state === 'open');
  const [first] = out;
  if (first && out.length === credentials.length)
    return credentials.length === 1
      ? credentialStatus(first)
      : {
          tone: 'danger',
          icon: 'key',
          word: 'Circuit open',
          detail: 'The circuit of every credential is open.',
        };
  if (first)
    return {
      tone: 'warn',
      icon: 'key',
      word: 'Degraded',
      detail: `${out.length} of ${credentials.length} credentials unavailable.`,
    };
  const unhealthy = credentials.find((each) => each.health !== null && each.health.state !== 'healthy');
  return health.state === 'healthy' && unhealthy ? credentialStatus(unhealthy) : healthStatus(health);
}
