import { Link } from '@tanstack/react-router';
import { useIsOverseer } from '../../lib/api/names.ts';

const SECTIONS = [
  { path: '/audit', name: 'Events', isForAll: true },
  { path: '/audit/proof', name: 'Integrity', isForAll: false },
  { path: '/audit/state', name: 'Point in time', isForAll: false },
  { path: '/audit/comparison', name: 'Consistency check', isForAll: false },
  { path: '/audit/receipt', name: 'Verify receipt', isForAll: true },
] as const;

/** Navigation between the audit pages. */
export function Sections() {
  const isOverseer = useIsOverseer();
  return (
    <nav
      aria-label="Audit log sections"
      className="mb-4 flex gap-1 overflow-x-auto overflow-y-hidden border-b border-line"
    >
      {SECTIONS.filter(({ isForAll }) => isForAll || isOverseer).map(({ path, name }) => (
        <Link
          key={path}
          to={path}
          activeOptions={{ exact: true, includeSearch: false }}
          className={[
            '-mb-px border-b-2 border-transparent px-3 py-1.5 max-sm:px-2 whitespace-nowrap',
            'text-muted hover:text-ink focus-visible:outline-offset-[-2px]',
            'aria-[current=page]:border-accent aria-[current=page]:text-ink',
          ].join(' ')}
        >
          {name}
        </Link>
      ))}
    </nav>
  );
}
