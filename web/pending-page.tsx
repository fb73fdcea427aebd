import { useSyncExternalStore } from 'react';
import { isWaiting, onWaiting } from './lib/when-reachable.ts';

/** Shown in place of a page that takes long to load. */
export function PendingPage() {
  const waits = useSyncExternalStore(onWaiting, isWaiting);
  return (
    <div role="status" className="grid h-96 w-full place-items-center rounded-xl bg-sunken p-6 text-muted">
      {waits ? (
        'The server isn’t responding. This page opens when it does.'
      ) : (
        <span className="sr-only">Loading</span>
      )}
    </div>
  );
}
