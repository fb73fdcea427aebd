import { Link } from '@tanstack/react-router';
import { useSingleKeys } from './lib/preferences.ts';
import { useMe } from './lib/session.ts';
import { pagesFor } from './pages.ts';
import { Dialog } from './ui/dialog.tsx';

const ANYWHERE = [
  ['Ctrl K', 'Go to a page by its name'],
  ['?', 'This help'],
  ['/', 'The filter of the page'],
  ['n', 'Something new, on pages that make it'],
  ['j, k', 'Next and previous row'],
  ['Enter', 'Open the row'],
  ['Space', 'Hold a live table still, or let it go on'],
  ['Esc', 'Close what is open'],
] as const;

/** All shortcuts. */
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
        {isOn ? 'Those without Ctrl can be turned off' : 'Those without Ctrl are turned off'} under{' '}
        <Link to="/settings" onClick={onClose} className="text-accent underline">
          Settings
        </Link>
        .
      </p>
    </Dialog>
  );
}
