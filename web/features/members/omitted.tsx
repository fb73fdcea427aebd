import { showCount } from '../../lib/show.ts';

/** A note below a list with a bound. */
export function Omitted({ count }: { count: number }) {
  if (count === 0) return null;
  return (
    <p className="border-t border-line px-4 py-2 text-muted">The oldest {showCount(count)} are not listed.</p>
  );
}
