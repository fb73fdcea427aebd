import { Link } from '@tanstack/react-router';
import { api, ApiError } from './lib/api/api.ts';
import { setTheme, setZone, useTheme, useZone } from './lib/hooks/preferences.ts';
import { useMe } from './lib/api/session.ts';
import { useFeedStatus } from './lib/feed/use-feed.ts';
import { useLeave } from './lib/hooks/use-leave.ts';
import { type Page, pagesFor } from './pages.ts';
import { IconButton } from './ui/button.tsx';
import { Icon } from './ui/icon.tsx';
import { LiveMark } from './ui/live-mark.tsx';
import { Logo } from './ui/layout/logo.tsx';
import { Modal } from './ui/dialog/modal.tsx';
import { announce } from './ui/dialog/toast.tsx';
import { capitalized } from './lib/format/show.ts';

type SidebarProps = { isOpen: boolean; onClose: () => void; onPalette: () => void; onHelp: () => void };

/** Navigation: a sidebar on wide screens, a drawer on narrow ones. */
export function Sidebar({ isOpen, onClose, onPalette, onHelp }: SidebarProps) {
  return (
    <>
      <aside
        aria-label="Menu"
        className="sticky top-0 hidden h-dvh overflow-y-auto border-r border-line md:block print:hidden"
      >
        <Content onPalette={onPalette} onHelp={onHelp} />
      </aside>
      {isOpen && <Drawer onClose={onClose} onPalette={onPalette} onHelp={onHelp} />}
    </>
  );
}

function Drawer({ onClose, onPalette, onHelp }: Omit<SidebarProps, 'isOpen'>) {
  return (
    <Modal
      aria-label="Menu"
      onClose={onClose}
      className="m-0 h-dvh max-h-dvh w-64 border-r border-line bg-ground p-0"
    >
      <Content onGo={onClose} onPalette={onPalette} onHelp={onHelp} />
    </Modal>
  );
}

function Content({
  onGo,
  onPalette,
  onHelp,
}: {
  onGo?: () => void;
  onPalette: () => void;
  onHelp: () => void;
}) {
  const { member, account } = useMe();
  const status = useFeedStatus();
  const pages = pagesFor(member.role);
  return (
    <div className="flex min-h-full flex-col gap-4 p-3">
      <div className="flex items-center gap-2 px-2 pt-1">
        <Logo />
        <span className="text-base font-semibold">Daybook</span>
        <span className="ml-auto text-xs">{status !== 'ended' && <LiveMark />}</span>
      </div>
      <button
        type="button"
        onClick={onPalette}
        className={[
          'flex items-center gap-2 rounded-md border border-line bg-surface px-2.5 py-1.5',
          'text-muted hover:text-ink',
        ].join(' ')}
      >
        <Icon name="search" />
        Search
        <kbd className="ml-auto font-sans text-xs">Ctrl K</kbd>
      </button>
      <nav aria-label="Pages" className="flex flex-1 flex-col gap-4">
        <Group name="Workspace" pages={pages} onGo={onGo} isHidden />
        <Group name="Administration" pages={pages} onGo={onGo} />
        <Group name="Personal" pages={pages} onGo={onGo} />
      </nav>
      <div className="flex flex-col gap-1 border-t border-line pt-3">
        <div className="px-2">
          <p className="truncate font-medium" title={member.email}>
            {member.email}
          </p>
          <p className="truncate text-xs text-muted">
            {account.name} · {capitalized(member.role)}
          </p>
        </div>
        <Preferences onGo={onGo} onHelp={onHelp} />
      </div>
    </div>
  );
}

function Group({
  name,
  pages,
  onGo,
  isHidden = false,
}: {
  name: Page['group'];
  pages: readonly Page[];
  onGo: (() => void) | undefined;
  isHidden?: boolean;
}) {
  const own = pages.filter(({ group }) => group === name);
  if (own.length === 0) return null;
  return (
    <div>
      <h2 className={isHidden ? 'sr-only' : 'px-2 pb-1 text-xs font-normal text-muted'}>{name}</h2>
      <ul className="flex flex-col gap-0.5">
        {own.map(({ path, name: text, icon }) => (
          <li key={path}>
            <Link
              to={path}
              onClick={onGo}
              activeOptions={{ exact: path === '/', includeSearch: false }}
              className={[
                'flex items-center gap-2.5 rounded-md px-2 py-1.5 text-muted hover:bg-sunken',
                'hover:text-ink aria-[current=page]:bg-accent-soft aria-[current=page]:font-medium',
                'aria-[current=page]:text-accent',
              ].join(' ')}
            >
              <Icon name={icon} />
              {text}
            </Link>
          </li>
        ))}
      </ul>
    </div>
  );
}

function Preferences({ onGo, onHelp }: { onGo: (() => void) | undefined; onHelp: () => void }) {
  const theme = useTheme();
  const zone = useZone();
  const leave = useLeave();
  const signOut = async (): Promise<void> => {
    try {
      await api('DELETE', '/api/v1/session');
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== 'unauthenticated') {
        // The drawer would cover the toast.
        onGo?.();
        announce({
          text: `Couldn’t sign out. ${error instanceof ApiError ? error.message : ''}`,
          tone: 'danger',
        });
        return;
      }
    }
    await leave();
  };
  return (
    <div className="flex items-center">
      <IconButton
        icon={theme === 'dark' ? 'sun' : 'moon'}
        label={theme === 'dark' ? 'Use light theme' : 'Use dark theme'}
        onClick={() => setTheme(theme === 'dark' ? 'light' : 'dark')}
      />
      <button
        type="button"
        onClick={() => setZone(zone === 'utc' ? 'local' : 'utc')}
        title={zone === 'utc' ? 'Show times in local time' : 'Show times in UTC'}
        className="whitespace-nowrap rounded-md px-2 py-1.5 text-xs text-muted hover:bg-sunken hover:text-ink"
      >
        {zone === 'utc' ? 'UTC' : 'Local time'}
      </button>
      <button
        type="button"
        onClick={onHelp}
        aria-label="Keyboard shortcuts"
        title="Keyboard shortcuts"
        className="min-h-8 min-w-8 rounded-md px-2 py-1.5 text-xs text-muted hover:bg-sunken hover:text-ink"
      >
        ?
      </button>
      <span className="flex-1" />
      <IconButton icon="door" label="Sign out" onClick={() => void signOut()} />
    </div>
  );
}
