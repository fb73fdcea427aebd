import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import type { CheckpointRow } from '#server/contract/audit.ts';
import { showCount } from '../../lib/show.ts';
import { Button } from '../../ui/button.tsx';
import { Copyable } from '../../ui/copy.tsx';
import { Card, Waiting } from '../../ui/parts.tsx';
import { Problem } from '../../ui/problem.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { When } from '../../ui/when.tsx';
import { shortRoot } from './proof-parts.tsx';
import { checkpointsQuery } from './proof-queries.ts';

const COLUMNS: readonly Column<CheckpointRow>[] = [
  { head: 'Covers up to', align: 'right', cell: ({ size }) => showCount(size) },
  { head: 'Published', cell: ({ published_at }) => <When time={published_at} /> },
  {
    head: 'Root',
    cell: ({ root, size }) => (
      <Copyable text={root} shown={shortRoot(root)} what={`the root at position ${size}`} />
    ),
  },
  {
    head: 'Cosigned by',
    cell: ({ witnesses }) =>
      witnesses.length === 0 ? <span className="text-muted">nobody</span> : witnesses.join(', '),
    isExtra: true,
  },
];

/** All checkpoints that are kept, the newest first; what is newer comes when it is asked for. */
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
          Newer ones
        </Button>
      }
    >
      {query.error && (
        <Problem
          error={query.error}
          title="The checkpoints could not be loaded"
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
        <p className="text-xs text-muted">Of those that are older than two days, one an hour is kept.</p>
        {query.hasNextPage && (
          <Button busy={query.isFetching} onClick={() => void query.fetchNextPage()}>
            Older ones
          </Button>
        )}
      </div>
    </Card>
  );
}
