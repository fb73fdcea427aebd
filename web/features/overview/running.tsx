import { Link } from '@tanstack/react-router';
import type { RequestFilter } from '#server/contract/requests.ts';
import { type NameOf, useKeyNames } from '../../lib/names.ts';
import type { RunningCall } from '../../lib/running-calls.ts';
import { showCount, showSeconds } from '../../lib/show.ts';
import { useNow } from '../../lib/use-now.ts';
import { Card } from '../../ui/parts.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { RowLink } from './row-link.tsx';

/** As many as somebody can follow. */
const SHOWN = 25;

/** Calls that run now, with their tokens so far. */
export function Running({
  calls,
  count,
  hasMore,
  filter,
}: {
  /** The newest. */ calls: readonly RunningCall[];
  count: number;
  /** Than are counted. */ hasMore: boolean;
  filter: RequestFilter;
}) {
  const nameOf = useKeyNames();
  const nowMs = useNow();
  return (
    <Card
      title={`Running now: ${showCount(count)}${hasMore ? '+' : ''}`}
      flush
      actions={
        <Link
          to="/requests"
          search={{ ...filter, outcome: 'running' }}
          className="text-accent hover:underline"
        >
          All running
        </Link>
      }
    >
      <div className="h-64 overflow-y-auto">
        <Table
          label="Running calls"
          keyOf={({ request }) => request}
          rows={calls.slice(0, SHOWN)}
          empty={<p className="grid h-64 place-items-center text-muted">No call is running.</p>}
          columns={columnsOf(filter, nameOf, nowMs)}
        />
        {count > SHOWN && (
          <p className="px-4 py-2 text-muted">and {showCount(count - SHOWN) + (hasMore ? '+' : '')} more</p>
        )}
      </div>
    </Card>
  );
}

const columnsOf = (filter: RequestFilter, nameOf: NameOf, nowMs: number): Column<RunningCall>[] => [
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
    head: 'Since',
    align: 'right',
    cell: ({ atMs }) => <span className="whitespace-nowrap">{showSeconds(nowMs - atMs)}</span>,
  },
  {
    head: 'Tokens out',
    align: 'right',
    cell: ({ outputTokens }) => (outputTokens === null ? '–' : showCount(outputTokens)),
  },
];
