import { Link } from '@tanstack/react-router';
import type { Change } from '#server/contract/keys.ts';
import { announce } from './toast.tsx';

/** A change by the event that it appended, with the way to it in the log. */
export function ChangeTold({ done, change: { event } }: { done: string; change: Change }) {
  if (event === null) return <>Nothing had to change.</>;
  return (
    <>
      {done}{' '}
      <Link to="/audit" search={{ at: event.position }} className="underline">
        <code className="font-mono text-xs">{event.type}</code> at position {event.position}
      </Link>
    </>
  );
}

/**
 * Tells of a change at the edge of the page. A dialog that stays open lies over that, and has to tell of it
 * itself.
 */
export function announceChange(done: string, change: Change): void {
  announce({ text: <ChangeTold done={done} change={change} /> });
}
