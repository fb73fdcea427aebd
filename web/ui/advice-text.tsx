import { Link } from '@tanstack/react-router';
import type { Advice } from '../lib/format/advice.ts';

const PLACES = { '/limits': 'View limits', '/keys': 'View keys' } as const;

/** Advice for a rejected request, with a link. */
export function AdviceText({ advice: { todo, to } }: { advice: Advice }) {
  return (
    <>
      {todo}{' '}
      {to !== null && (
        <Link to={to} className="underline hover:text-accent">
          {PLACES[to]}
        </Link>
      )}
    </>
  );
}
