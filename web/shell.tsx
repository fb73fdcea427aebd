import { QueryClientProvider, useQueryClient, useSuspenseQuery } from '@tanstack/react-query';
import { Link, Outlet, useNavigate } from '@tanstack/react-router';
import { Suspense, useEffect, useEffectEvent, useState } from 'react';
import { whenSignedOut } from './lib/api/api.ts';
import { feed } from './lib/feed/feed.ts';
import { queryClient } from './lib/api/query-client.ts';
import { useNewNames } from './lib/api/names.ts';
import { MeContext, meQuery, rightsOf, useMe } from './lib/api/session.ts';
import { useFeedStatus, useFrames } from './lib/feed/use-feed.ts';
import { useLeave } from './lib/hooks/use-leave.ts';
import { useShortcuts } from './lib/hooks/use-shortcuts.ts';
import { pagesFor } from './pages.ts';
import { Sidebar } from './sidebar.tsx';
import { buttonClass, IconButton } from './ui/button.tsx';
import { Logo } from './ui/layout/logo.tsx';
import { Waiting } from './ui/layout/parts.tsx';
import { lazyPart } from './lib/lazy-part.ts';

const Palette = lazyPart(() => import('./palette.tsx'), 'Palette');
const Help = lazyPart(() => import('./help.tsx'), 'Help');

/** The layout of all pages with a session. */
export function Shell() {
  return (
    <QueryClientProvider client={queryClient}>
      <Session />
    </QueryClientProvider>
  );
}

function Session() {
  const { data } = useSuspenseQuery(meQuery);
  if (data === null) return null;
  return (
    <MeContext value={data}>
      <Layout key={rightsOf(data)} />
    </MeContext>
  );
}

/** Remounted, with a new feed, when the member's permissions change. */
function Layout() {
  const { member, account } = useMe();
  const navigate = useNavigate();
  const queries = useQueryClient();
  const leave = useLeave();
  const [open, setOpen] = useState<'menu' | 'palette' | 'help' | null>(null);
  const signedOut = useEffectEvent(() => void leave(window.location.pathname + window.location.search));
  useEffect(() => {
    whenSignedOut(() => signedOut());
    return () => {
      whenSignedOut(() => {});
      feed.close();
    };
  }, []);
  useEffect(() => {
    const listener = (event: KeyboardEvent): void => {
      // An open dialog may show a secret that is shown only once.
      if (event.key !== 'k' || !(event.ctrlKey || event.metaKey) || document.querySelector('dialog[open]'))
        return;
      event.preventDefault();
      setOpen('palette');
    };
    document.addEventListener('keydown', listener);
    return () => document.removeEventListener('keydown', listener);
  }, []);
  // Changes to the account or the member take effect immediately on live pages.
  useFrames((frames) => {
    if (frames.some((frame) => frame.type === 'notice' && /^(account|member)\./.test(frame.kind)))
      void queries.invalidateQueries({ queryKey: meQuery.queryKey });
  });
  useNewNames();
  const status = useFeedStatus();
  // Retries failed queries when the server is back.
  useEffect(() => {
    if (status === 'live')
      void queries.refetchQueries({ type: 'active', predicate: ({ state }) => state.status === 'error' });
  }, [status, queries]);
  useShortcuts({
    '?': () => setOpen('help'),
    ...Object.fromEntries(
      pagesFor(member.role).map(({ key, path: to }) => [`g ${key}`, () => void navigate({ to })]),
    ),
  });

  return (
    <div className="min-h-dvh md:grid md:grid-cols-[13.5rem_minmax(0,1fr)] print:block">
      <a
        href="#content"
        className={buttonClass(
          'primary',
          'sr-only focus:not-sr-only focus:fixed focus:top-2 focus:left-2 focus:z-50',
        )}
      >
        Skip to content
      </a>
      <header
        className={[
          'sticky top-0 z-20 flex items-center justify-between border-b border-line bg-ground',
          'px-3 py-2 md:hidden print:hidden',
        ].join(' ')}
      >
        <IconButton
          icon="menu"
          label="Menu"
          aria-expanded={open === 'menu'}
          onClick={() => setOpen('menu')}
        />
        <Link to="/" className="flex items-center gap-2 font-semibold">
          <Logo />
          Daybook
        </Link>
        <IconButton icon="search" label="Search" onClick={() => setOpen('palette')} />
      </header>
      <Sidebar
        isOpen={open === 'menu'}
        onClose={() => setOpen(null)}
        onPalette={() => setOpen('palette')}
        onHelp={() => setOpen('help')}
      />
      <main
        id="content"
        tabIndex={-1}
        className="mx-auto w-full max-w-7xl px-4 py-5 outline-none md:px-8 md:py-7"
      >
        {account.state === 'suspended' && (
          <p role="alert" className="mb-5 rounded-lg border border-warn bg-warn-soft px-4 py-3 text-warn">
            This account is suspended. Its requests are rejected with 403{' '}
            <code className="font-mono text-xs">account_disabled</code>. Contact an administrator.
          </p>
        )}
        <Suspense fallback={<Waiting height="h-96" />}>
          <Outlet />
        </Suspense>
      </main>
      <Suspense>
        {open === 'palette' && <Palette onClose={() => setOpen(null)} />}
        {open === 'help' && <Help onClose={() => setOpen(null)} />}
      </Suspense>
    </div>
  );
}
