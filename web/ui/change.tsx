import { Link } from '@tanstack/react-router';
import type { Change } from '#server/dashboard/contract-keys.ts';
import { announce } from './toast.tsx';

/** Tells of a change by the event that it appended, with the way to it in the log. */
export function announceChange(done: string, { event }: Change): void {
  announce({
    text: event === null ? (
      <>Nothing had to change.</>
    ) : (
      <>
        {done}{' '}
        <Link to="/audit" search={{ at: event.position }} className="underline">
          <code className="font-mono text-xs">{event.type}</code> at position {event.position}
        </Link>
      </>
    ),
  });
}
