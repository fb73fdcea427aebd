import { Link } from '@tanstack/react-router';
import { memo } from 'react';
import type { RequestFilter } from '#server/contract/requests.ts';
import type { Range } from '../../lib/filter-search.ts';

/** Links of rows that are drawn four times a second: drawn anew only where they lead somewhere else. */
type RowLinkProps = {
  text: string;
  /** What the list is narrowed to: the same object each time. */
  filter: RequestFilter;
  range?: Range;
  /** And to one of these besides. */
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

type Given<T> = { [Name in keyof T]?: NonNullable<T[Name]> };
const given = <T extends object>(values: T): Given<T> =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Given<T>;
