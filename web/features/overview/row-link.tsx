import { Link } from '@tanstack/react-router';
import { memo } from 'react';
import type { RequestFilter } from '#server/contract/requests.ts';
import type { Range } from '../../lib/search/filter.ts';

/** A memoized link for rows that are painted four times a second. */
type RowLinkProps = {
  text: string;
  /** The page's filter. Must be the same object on each render. */
  filter: RequestFilter;
  range?: Range;
  /** Additional filters. */
  request?: string;
  keyId?: string;
  model?: string;
  className?: string;
};

export const RowLink = memo(function RowLink({
  text,
  filter,
  range,
  request,
  keyId,
  model,
  className = '',
}: RowLinkProps) {
  const search = { ...filter, ...given({ range, request, key: keyId, model }) };
  return (
    <Link to="/requests" search={search} className={`block truncate hover:underline ${className}`}>
      {text}
    </Link>
  );
});

type Present<T> = { [Name in keyof T]?: NonNullable<T[Name]> };
const given = <T extends object>(values: T): Present<T> =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Present<T>;
