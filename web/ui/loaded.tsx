import type { UseQueryResult } from '@tanstack/react-query';
import { type ReactNode, useDeferredValue } from 'react';
import { Problem } from './problem.tsx';
import { Waiting } from './parts.tsx';

type LoadedProps<Data> = {
  query: Pick<UseQueryResult<Data>, 'data' | 'error' | 'refetch'>;
  /** What it is when it fails: "The accounts could not be loaded". */
  title: string;
  /** About as high as what is coming. */
  height?: string;
  children: (data: Data) => ReactNode;
};

/**
 * What a query brings, or that it is on its way, or why it does not come. What was there before stays while
 * it fails.
 */
export function Loaded<Data>({
  query: { data, error, refetch },
  title,
  height = 'h-64',
  children,
}: LoadedProps<Data>) {
  // What a long list or a page of charts is drawn from is drawn bit by bit, between which the page listens.
  const shown = useDeferredValue(data);
  const problem = error && (
    <Problem
      error={error}
      title={data === undefined ? title : `${title}. What you see is older`}
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
