import type { KeyRow } from '#server/contract/keys.ts';
import { isActive } from '../../lib/api/names.ts';
import { useNow } from '../../lib/hooks/use-now.ts';
import { Badge, type Tone } from '../../ui/layout/parts.tsx';
import { glanceAtTerms } from '../../ui/terms/glance.ts';
import { Ago } from '../../ui/when.tsx';

/** Parts of a key that several views show. */

const STATES: Record<KeyRow['state'], [text: string, tone: Tone]> = {
  active: ['Active', 'success'],
  rotating: ['Rotating', 'warn'],
  expired: ['Expired', 'plain'],
  revoked: ['Revoked', 'plain'],
};

export function StateBadge({ state }: Pick<KeyRow, 'state'>) {
  const [text, tone] = STATES[state];
  return <Badge tone={tone}>{text}</Badge>;
}

/** The visible part of a secret. */
export const shownSecret = (id: string, last4: string): string => `dbk_${id}_…${last4}`;

export function LastUsed({ time }: { time: string | null }) {
  return time === null ? <span className="text-muted">Never</span> : <Ago time={time} />;
}

const SOON_MS = 7 * 86_400_000;

export function Expiry({ row }: { row: KeyRow }) {
  const { expires_at } = row;
  const now = useNow(60_000);
  if (expires_at === null) return <span className="text-muted">Never</span>;
  const isSoon = isActive(row) && Date.parse(expires_at) - now < SOON_MS;
  return isSoon ? (
    <Badge tone="warn">
      <Ago time={expires_at} />
    </Badge>
  ) : (
    <Ago time={expires_at} />
  );
}

const GLANCED_MAX = 3;

export function TermsGlance({ terms }: Pick<KeyRow, 'terms'>) {
  const all = terms === null ? [] : glanceAtTerms(terms);
  if (all.length === 0) return <span className="text-muted">None</span>;
  return (
    <span className="flex flex-wrap gap-1">
      {all.slice(0, GLANCED_MAX).map((each) => (
        <span key={each} className="max-w-40 truncate rounded-sm bg-sunken px-1.5 text-xs" title={each}>
          {each}
        </span>
      ))}
      {all.length > GLANCED_MAX && <span className="text-xs text-muted">+{all.length - GLANCED_MAX}</span>}
    </span>
  );
}
