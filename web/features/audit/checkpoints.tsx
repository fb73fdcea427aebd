import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import type { CheckpointRow } from '#server/contract/audit.ts';
import { showCount } from '../../lib/format/show.ts';
import { Button } from '../../ui/button.tsx';
import { Copyable } from '../../ui/copy.tsx';
import { Card, Waiting } from '../../ui/layout/parts.tsx';
import { Problem } from '../../ui/problem.tsx';
import { type Column, Table } from '../../ui/layout/table.tsx';
import { When } from '../../ui/when.tsx';
import { shortRoot } from './proof-parts.tsx';
import { checkpointsQuery } from './proof-queries.ts';

const COLUMNS: readonly Column<CheckpointRow>[] = [
  { head: 'Tree size', align: 'right', cell: ({ size }) => showCount(size) },
  { head: 'Published', cell: ({ published_at }) => <When time={published_at} /> },
  {
    head: 'Root hash',
    cell: ({ root, size }) => (
      <Copyable text={root} shown={shortRoot(root)} what={`root hash at size ${size}`} />
    ),
  },
  {
    head: 'Cosigned by',
    cell: ({ witnesses }) =>
      witnesses.length === 0 ? <span className="text-muted">None</span> : witnesses.join(', '),
    isExtra: true,
  },
];

/** The retained checkpoints, newest first. Newer ones are loaded on request. */
export function Checkpoints({ newest }: { newest: CheckpointRow }) {
  const query = useInfiniteQuery({
    ...checkpointsQuery,
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
  });
  const queries = useQueryClient();
  const rows = query.data?.pages.flatMap(({ data }) => data) ?? [];
  const hasNewer = rows[0] !== undefined && (rows[0].epoch !== newest.epoch || rows[0].size < newest.size);
  return (
    <Card
      title="Checkpoints"
      flush
      actions={
        <Button
          icon="refresh"
          disabled={!hasNewer}
          onClick={() => void queries.resetQueries({ queryKey: checkpointsQuery.queryKey })}
        >
          Load newer
        </Button>
      }
    >
      {query.error && (
        <Problem
          error={query.error}
          title="Couldn’t load checkpoints"
          onRetry={() => void (query.data ? query.fetchNextPage() : query.refetch())}
        />
      )}
      {!query.data && !query.error && <Waiting height="h-64" label="Loading checkpoints" />}
      {query.data && (
        <Table
          label="Checkpoints"
          rows={rows}
          keyOf={({ epoch, size }) => `${epoch} ${size}`}
          columns={COLUMNS}
        />
      )}
      <div className="flex flex-wrap items-center justify-between gap-2 border-t border-line px-4 py-2.5">
        <p className="text-xs text-muted">After two days, one checkpoint per hour is retained.</p>
        {query.hasNextPage && (
          <Button busy={query.isFetching} onClick={() => void query.fetchNextPage()}>
            Load older
          </Button>
        )}
      </div>
    </Card>
  );
}
