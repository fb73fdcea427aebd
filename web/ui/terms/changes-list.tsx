import { Badge } from '../layout/parts.tsx';
import type { WindowsChoice } from '../form/windows-choice.tsx';
import type { TermsChange } from './changes.ts';

/** A preview of changed limits. */
export function ChangesList({
  changes,
  windows,
  none = 'No changes.',
}: {
  changes: readonly TermsChange[];
  windows: WindowsChoice;
  /** Shown without changes. */ none?: string;
}) {
  const isEmpty = changes.length === 0 && windows === 'keep';
  return (
    <section aria-label="Changes" className="rounded-lg border border-line">
      <h3 className="border-b border-line px-3 py-2 font-semibold">Changes</h3>
      {isEmpty ? (
        <p className="px-3 py-2 text-muted">{none}</p>
      ) : (
        <ul className="divide-y divide-line">
          {changes.map(({ what, from, to, effect }) => (
            <li key={what} className="flex flex-wrap items-baseline justify-between gap-x-3 px-3 py-2">
              <span className="min-w-0 break-words">
                {what}: <span className="text-muted">{from}</span> →{' '}
                <strong className="font-semibold">{to}</strong>
              </span>
              {effect !== null && <Badge tone={effect === 'stricter' ? 'warn' : 'plain'}>{effect}</Badge>}
            </li>
          ))}
          {windows === 'reset' && <li className="px-3 py-2">Current windows are reset.</li>}
        </ul>
      )}
    </section>
  );
}
