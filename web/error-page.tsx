import { Link } from '@tanstack/react-router';
import { useEffect } from 'react';
import { buttonClass } from './ui/button.tsx';
import { PageHead } from './ui/layout/page-head.tsx';
import { Problem } from './ui/problem.tsx';

export function NotFoundPage() {
  return (
    <div className="mx-auto flex max-w-md flex-col items-center gap-3 px-4 py-24 text-center">
      <PageHead title="Page not found" about="Check the address, or go back to the overview." />
      <Link to="/" className={buttonClass('primary')}>
        Go to overview
      </Link>
    </div>
  );
}

/** The minimum interval between automatic reloads. */
const AGAIN_AFTER_MS = 60_000;

/** The error boundary of all pages. A missing chunk of an older version is fixed by one automatic reload. */
export function ErrorPage({ error }: { error: unknown }) {
  const isStale = error instanceof TypeError && /import|module/i.test(error.message);
  useEffect(() => {
    // Stores only the time: the address may contain a secret link.
    if (!isStale || Date.now() - Number(sessionStorage.getItem('reloaded_at')) < AGAIN_AFTER_MS) return;
    sessionStorage.setItem('reloaded_at', String(Date.now()));
    window.location.reload();
  }, [isStale]);
  return (
    <main className="mx-auto max-w-2xl p-6">
      <Problem error={error} title="Couldn’t load this page" onRetry={() => window.location.reload()} />
    </main>
  );
}
