import type { CredentialRow, UpstreamRow } from '#server/contract/upstreams.ts';
import { showCounted, showSeconds } from '../../lib/show.ts';
import { tryWords } from '../../lib/try-words.ts';
import type { IconName } from '../../ui/icon.tsx';
import type { Tone } from '../../ui/parts.tsx';

/** How an upstream or a credential fares, in words. Pure. */

export type Standing = {
  tone: Tone;
  icon: IconName;
  word: string;
  /** What it means; null: nothing more. */ detail: string | null;
};

type Health = UpstreamRow['health'];

/** Of one that nobody has called yet nothing better is known. */
const GOOD: Standing = { tone: 'good', icon: 'check', word: 'No trouble', detail: null };

/** To the second: it is told anew every few of them. It stays together where the line breaks. */
const seconds = (ms: number): string =>
  showSeconds(Math.max(1, Math.ceil(ms / 1_000)) * 1_000).replaceAll(' ', '\u00a0');

export function healthStanding({ state, problem, failures, ejected_ms: outMs }: Health): Standing {
  const why = problem === null ? '' : ` (${tryWords(problem)})`;
  switch (state) {
    case 'good':
      return GOOD;
    case 'failing':
      return {
        tone: 'warn',
        icon: 'warning',
        word: 'Failing',
        detail:
          failures === 1
            ? `The last call failed${why}.`
            : `${showCounted(failures, 'call')} in a row failed${why}.`,
      };
    case 'ejected':
      return {
        tone: 'bad',
        icon: 'warning',
        word: 'Left out',
        detail: `Calls go elsewhere where they can${why}. It is tried again in ${seconds(outMs)}.`,
      };
    case 'on_trial':
      return {
        tone: 'warn',
        icon: 'clock',
        word: 'On trial',
        detail: `One call at a time tries it again${why}.`,
      };
  }
}

export const credentialStanding = ({ health }: CredentialRow): Standing =>
  health === null
    ? {
        tone: 'bad',
        icon: 'warning',
        word: 'Does not open',
        detail: 'This server has no master key that opens it; its diagnostics say more.',
      }
    : healthStanding(health);

/** Of an upstream with its credentials: the worst that calls would meet. */
export function upstreamStanding({
  state,
  health,
  credentials,
}: Pick<UpstreamRow, 'state' | 'health' | 'credentials'>): Standing {
  if (state === 'paused')
    return { tone: 'plain', icon: 'pause', word: 'Paused', detail: 'Nothing is sent there.' };
  if (state === 'no_credential')
    return {
      tone: 'bad',
      icon: 'key',
      word: 'No credential',
      detail: 'None of its credentials opens on this server, so nothing is sent there.',
    };
  if (health.state === 'ejected' || health.state === 'on_trial') return healthStanding(health);
  const out = credentials.filter((each) => each.health === null || each.health.state === 'ejected');
  const [first] = out;
  if (first && out.length === credentials.length)
    return credentials.length === 1
      ? credentialStanding(first)
      : { tone: 'bad', icon: 'key', word: 'Left out', detail: 'All of its credentials are left out.' };
  if (first)
    return {
      tone: 'warn',
      icon: 'key',
      word: 'In part',
      detail: `${out.length} of ${credentials.length} credentials ${out.length === 1 ? 'is' : 'are'} left out.`,
    };
  const troubled = credentials.find((each) => each.health !== null && each.health.state !== 'good');
  return health.state === 'good' && troubled ? credentialStanding(troubled) : healthStanding(health);
}
