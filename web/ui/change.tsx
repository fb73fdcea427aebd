import { Link } from '@tanstack/react-router';
import type { Change } from '#server/contract/keys.ts';
import { announce } from './dialog/toast.tsx';

/** A change with a link to the event it appended. */
export function ChangeSummary({ done, change: { event } }: { done: string; change: Change }) {
  if (event === null) return <>No changes were necessary.</>;
  return (
    <>
      {done}{' '}
      <Link to="/audit" search={{ at: event.position }} className="underline">
        <code className="font-mono text-xs">{event.type}</code> at position {event.position}
      </Link>
    </>
  );
}

/** Shows a change as a toast. A dialog that stays open covers toasts and must show the change itself. */
export function announceChange(done: string, change: Change): void {
  announce({ text: <ChangeSummary done={done} change={change} /> });
}
