import { Link } from '@tanstack/react-router';
import { useEffect } from 'react';
import { buttonClass } from './ui/button.tsx';
import { PageHead } from './ui/page-head.tsx';
import { Problem } from './ui/problem.tsx';

export function Missing() {
  return (
    <main className="mx-auto flex max-w-md flex-col items-center gap-3 px-4 py-24 text-center">
      <PageHead title="There is no such page" about="The address may be mistyped, or from another version." />
      <Link to="/" className={buttonClass('primary')}>
        Go to the overview
      </Link>
    </main>
  );
}

/** So long after it was loaded anew the page is not loaded anew again: what is missing then is missing. */
const AGAIN_AFTER_MS = 60_000;

/**
 * What no page caught. A piece of an older version that is not there any more is fetched anew by loading the
 * page, once.
 */
export function Trouble({ error }: { error: unknown }) {
  const isStale = error instanceof TypeError && /import|module/i.test(error.message);
  useEffect(() => {
    // The time alone: an address may be a link that is a secret.
    if (!isStale || Date.now() - Number(sessionStorage.getItem('reloaded_at')) < AGAIN_AFTER_MS) return;
    sessionStorage.setItem('reloaded_at', String(Date.now()));
    window.location.reload();
  }, [isStale]);
  return (
    <main className="mx-auto max-w-2xl p-6">
      <Problem error={error} title="This page could not be shown" onRetry={() => window.location.reload()} />
    </main>
  );
}
