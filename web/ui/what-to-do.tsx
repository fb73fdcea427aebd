import { Link } from '@tanstack/react-router';
import type { Advice } from '../lib/refusals.ts';

const PLACES = { '/limits': 'See the limits', '/keys': 'Go to the keys' } as const;

/** What to do about a refusal, with the way to where it is done. */
export function WhatToDo({ advice: { todo, to } }: { advice: Advice }) {
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
