import { Link } from '@tanstack/react-router';
import { useSingleKeys } from './lib/hooks/preferences.ts';
import { useMe } from './lib/api/session.ts';
import { pagesFor } from './pages.ts';
import { Dialog } from './ui/dialog/dialog.tsx';

const ANYWHERE = [
  ['Ctrl K', 'Open the command menu'],
  ['?', 'Show keyboard shortcuts'],
  ['/', 'Focus the filter'],
  ['n', 'Create or add'],
  ['j, k', 'Next and previous row'],
  ['Enter', 'Open the row'],
  ['Space', 'Pause or resume live updates'],
  ['Esc', 'Close'],
] as const;

/** Keyboard shortcuts. */
export function Help({ onClose }: { onClose: () => void }) {
  const { member } = useMe();
  const isOn = useSingleKeys();
  const pages = pagesFor(member.role).map(({ key, name }) => [`g ${key}`, name] as const);
  return (
    <Dialog onClose={onClose} title="Keyboard shortcuts">
      <div className="grid gap-x-8 gap-y-4 sm:grid-cols-2">
        {[ANYWHERE, pages].map((rows, index) => (
          <dl key={index} className="grid auto-rows-min grid-cols-[4rem_1fr] gap-y-1.5">
            {rows.map(([keys, what]) => (
              <div key={keys} className="contents">
                <dt>
                  <kbd className="rounded border border-line bg-sunken px-1.5 font-mono text-xs">{keys}</kbd>
                </dt>
                <dd>{what}</dd>
              </div>
            ))}
          </dl>
        ))}
      </div>
      <p className="mt-4 text-muted">
        {isOn ? 'Turn off single-key shortcuts' : 'Single-key shortcuts are off. Turn them on'} in{' '}
        <Link to="/settings" onClick={onClose} className="text-accent underline">
          Settings
        </Link>
        .{' '}
        <a href="/docs" className="text-accent underline">
          Documentation
        </a>
      </p>
    </Dialog>
  );
}
