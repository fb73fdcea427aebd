import { showCount } from '../../lib/show.ts';

/** Beneath a list that is too long to be told whole. */
export function Omitted({ count }: { count: number }) {
  if (count === 0) return null;
  return (
    <p className="border-t border-line px-4 py-2 text-muted">The {showCount(count)} oldest are left out.</p>
  );
}
