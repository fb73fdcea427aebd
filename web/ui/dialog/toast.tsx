import { type ReactNode, useSyncExternalStore } from 'react';
import { IconButton } from '../button.tsx';

/** Toasts, also announced to screen readers. For confirmations; form errors are shown at the form. */
type Toast = { text: ReactNode; tone?: 'danger' };
type Shown = Toast & { id: number };

const SHOWN_MS = 6_000;
const SHOWN_MAX = 4;
let shown: readonly Shown[] = [];
let lastId = 0;
const listeners = new Set<() => void>();

function set(next: readonly Shown[]): void {
  shown = next;
  for (const listener of listeners) listener();
}

/** Shows a toast for six seconds. */
export function announce(toast: Toast): void {
  const id = ++lastId;
  set([...shown.slice(1 - SHOWN_MAX), { ...toast, id }]);
  setTimeout(() => dismiss(id), SHOWN_MS);
}

const dismiss = (id: number): void => set(shown.filter((each) => each.id !== id));

export function Toasts() {
  const list = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => shown,
  );
  return (
    <div
      role="status"
      aria-live="polite"
      className={[
        'pointer-events-none fixed inset-x-3 bottom-3 z-50 flex flex-col items-center gap-2',
        'sm:inset-x-auto sm:right-4 sm:items-end',
      ].join(' ')}
    >
      {list.map(({ id, text, tone }) => (
        <div
          key={id}
          className={[
            'pointer-events-auto flex max-w-md items-center gap-2 rounded-lg border px-3 py-2',
            'shadow-lg',
            tone === 'danger' ? 'border-danger bg-danger-soft text-danger' : 'border-line bg-surface',
          ].join(' ')}
        >
          <div className="min-w-0 flex-1">{text}</div>
          <IconButton icon="close" label="Dismiss" className="min-h-6 px-1" onClick={() => dismiss(id)} />
        </div>
      ))}
    </div>
  );
}
