import { Link } from '@tanstack/react-router';
import { useIsOverseer } from '../../lib/names.ts';

const SECTIONS = [
  { path: '/audit', name: 'Events', isForAll: true },
  { path: '/audit/proof', name: 'Proof', isForAll: false },
  { path: '/audit/state', name: 'As of', isForAll: false },
  { path: '/audit/comparison', name: 'Comparison', isForAll: false },
  { path: '/audit/receipt', name: 'Receipt', isForAll: true },
] as const;

/** The ways between the pages about the log. */
export function Sections() {
  const isOverseer = useIsOverseer();
  return (
    <nav
      aria-label="The audit log"
      className="mb-4 flex gap-1 overflow-x-auto overflow-y-hidden border-b border-line"
    >
      {SECTIONS.filter(({ isForAll }) => isForAll || isOverseer).map(({ path, name }) => (
        <Link
          key={path}
          to={path}
          activeOptions={{ exact: true, includeSearch: false }}
          className="-mb-px border-b-2 border-transparent px-3 py-1.5 max-sm:px-2 whitespace-nowrap text-muted hover:text-ink focus-visible:outline-offset-[-2px] aria-[current=page]:border-accent aria-[current=page]:text-ink"
        >
          {name}
        </Link>
      ))}
    </nav>
  );
}
