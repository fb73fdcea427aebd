import { Link } from '@tanstack/react-router';
import type { RequestFilter } from '#server/contract/requests.ts';
import { type NameOf, useKeyNames } from '../../lib/api/names.ts';
import type { RunningRequest } from '../../lib/feed/running-requests.ts';
import { showCount, showSeconds } from '../../lib/format/show.ts';
import { useNow } from '../../lib/hooks/use-now.ts';
import { Card } from '../../ui/layout/parts.tsx';
import { type Column, Table } from '../../ui/layout/table.tsx';
import { RowLink } from './row-link.tsx';

/** The maximum number of rows. */
const SHOWN = 25;

/** Running requests with their tokens so far. */
export function Running({
  calls,
  count,
  hasMore,
  filter,
}: {
  /** Newest first. */ calls: readonly RunningRequest[];
  count: number;
  /** Whether there are more than `count`. */ hasMore: boolean;
  filter: RequestFilter;
}) {
  const nameOf = useKeyNames();
  const nowMs = useNow();
  return (
    <Card
      title={`Running requests: ${showCount(count)}${hasMore ? '+' : ''}`}
      flush
      actions={
        <Link
          to="/requests"
          search={{ ...filter, outcome: 'running' }}
          className="text-accent hover:underline"
        >
          View all
        </Link>
      }
    >
      <div className="h-64 overflow-y-auto">
        <Table
          label="Running requests"
          keyOf={({ request }) => request}
          rows={calls.slice(0, SHOWN)}
          empty={<p className="grid h-64 place-items-center text-muted">No running requests.</p>}
          columns={columnsOf(filter, nameOf, nowMs)}
        />
        {count > SHOWN && (
          <p className="px-4 py-2 text-muted">{showCount(count - SHOWN) + (hasMore ? '+' : '')} more</p>
        )}
      </div>
    </Card>
  );
}

const columnsOf = (filter: RequestFilter, nameOf: NameOf, nowMs: number): Column<RunningRequest>[] => [
  {
    head: 'Model',
    cell: ({ model, request }) => (
      <RowLink text={model} filter={filter} request={request} className="max-w-48" />
    ),
  },
  {
    head: 'Key',
    isExtra: true,
    cell: ({ key }) => <span className="block max-w-32 truncate">{nameOf(key)}</span>,
  },
  {
    head: 'Running for',
    align: 'right',
    cell: ({ atMs }) => <span className="whitespace-nowrap">{showSeconds(nowMs - atMs)}</span>,
  },
  {
    head: 'Output tokens',
    align: 'right',
    cell: ({ outputTokens }) => (outputTokens === null ? '–' : showCount(outputTokens)),
  },
];
