import type { UseQueryResult } from '@tanstack/react-query';
import { type ReactNode, useDeferredValue } from 'react';
import { Problem } from '../problem.tsx';
import { Waiting } from './parts.tsx';

type LoadedProps<Data> = {
  query: Pick<UseQueryResult<Data>, 'data' | 'error' | 'refetch'>;
  /** The error title, such as "Couldn’t load accounts". */
  title: string;
  /** The placeholder's height. */
  height?: string;
  children: (data: Data) => ReactNode;
};

/** Renders a query's data, a placeholder, or an error. Earlier data stays visible while a refetch fails. */
export function Loaded<Data>({
  query: { data, error, refetch },
  title,
  height = 'h-64',
  children,
}: LoadedProps<Data>) {
  // Deferred, so that rendering a long list does not block input.
  const shown = useDeferredValue(data);
  const problem = error && (
    <Problem
      error={error}
      title={data === undefined ? title : `${title}. Showing earlier data`}
      onRetry={() => void refetch()}
    />
  );
  if (shown === undefined) return problem ?? <Waiting height={height} />;
  return (
    <>
      {problem && <div className="mb-4">{problem}</div>}
      {children(shown)}
    </>
  );
}
