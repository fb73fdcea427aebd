import { Link } from '@tanstack/react-router';
import { type NameOf, useKeyNames } from '../../lib/names.ts';
import type { RunningCall } from '../../lib/running-calls.ts';
import { showCount, showDuration } from '../../lib/show.ts';
import { useNow } from '../../lib/use-now.ts';
import { Card } from '../../ui/parts.tsx';
import { type Column, Table } from '../../ui/table.tsx';

/** Calls that run now, with their tokens so far. */
export function Running({ calls, count }: { calls: readonly RunningCall[]; count: number }) {
  const nameOf = useKeyNames();
  const nowMs = useNow();
  return (
    <Card title="Running now" actions={<span className="text-muted">{showCount(count)}</span>} flush>
      <div className="h-64 overflow-y-auto">
        <Table
          label="Running calls"
          keyOf={({ request }) => request}
          rows={calls}
          empty={<p className="grid h-64 place-items-center text-muted">No call is running.</p>}
          columns={columnsOf(nameOf, nowMs)}
        />
        {count > calls.length && <p className="px-4 py-2 text-muted">and {showCount(count - calls.length)} more</p>}
      </div>
    </Card>
  );
}

const columnsOf = (nameOf: NameOf, nowMs: number): Column<RunningCall>[] => [
  {
    head: 'Model',
    cell: ({ model, request }) => (
      <Link to="/requests" search={{ request }} className="block max-w-48 truncate hover:underline">
        {model}
      </Link>
    ),
  },
  { head: 'Key', cell: ({ key }) => <span className="block max-w-32 truncate">{nameOf(key)}</span> },
  { head: 'Since', align: 'right', cell: ({ atMs }) => <span className="whitespace-nowrap">{showSeconds(nowMs - atMs)}</span> },
  { head: 'Tokens out', align: 'right', cell: ({ outputTokens }) => (outputTokens === null ? '–' : showCount(outputTokens)) },
];

const showSeconds = (ms: number): string => (ms < 10_000 ? `${Math.max(0, Math.floor(ms / 1_000))} s` : showDuration(ms));
