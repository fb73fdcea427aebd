import { Link } from '@tanstack/react-router';
import type { FilterSearch } from '../../lib/filter-search.ts';
import type { Group } from '../../lib/live-store.ts';
import { type NameOf, useKeyNames } from '../../lib/names.ts';
import { showCost, showCount, showPercent, showShort } from '../../lib/show.ts';
import { callsOf, errorShareOf } from '../../lib/tally.ts';
import { Card } from '../../ui/parts.tsx';
import { type Column, Table } from '../../ui/table.tsx';

const SHOWN = 6;
const TITLES = { key: 'By key', model: 'By model' } as const;

/** Who or what calls most: the first few, and how many more there are. */
export function Groups({ by, groups, omitted, search }: { by: 'key' | 'model'; groups: readonly Group[]; /** Rows that the report had no room for. */ omitted: number; search: FilterSearch }) {
  const nameOf = useKeyNames();
  const more = groups.length - SHOWN;
  return (
    <Card
      title={TITLES[by]}
      flush
      actions={
        <Link to="/usage" search={{ ...search, group: by }} className="text-accent hover:underline">
          Usage
        </Link>
      }
    >
      <div className="min-h-64">
        <Table
          label={TITLES[by]}
          keyOf={({ id }) => id}
          rows={groups.slice(0, SHOWN)}
          empty={<p className="grid h-64 place-items-center text-muted">No calls in this time.</p>}
          columns={columnsOf(by, search, nameOf)}
        />
        {more > 0 && (
          <p className="px-4 py-2 text-muted">
            and {showCount(more)} {omitted > 0 ? 'or ' : ''}more
          </p>
        )}
      </div>
    </Card>
  );
}

const columnsOf = (by: 'key' | 'model', search: FilterSearch, nameOf: NameOf): Column<Group>[] => [
  {
    head: by === 'key' ? 'Key' : 'Model',
    cell: ({ id }) =>
      id === '' ? (
        <span className="text-muted" title="Refused before the model mattered">none</span>
      ) : (
        <Link to="/requests" search={{ ...search, [by]: id }} className="block max-w-44 truncate hover:underline">
          {by === 'key' ? nameOf(id) : id}
        </Link>
      ),
  },
  { head: 'Requests', align: 'right', cell: ({ tally }) => showShort(callsOf(tally)) },
  { head: 'Errors', align: 'right', cell: ({ tally }) => showPercent(errorShareOf(tally) ?? 0) },
  { head: 'Tokens', align: 'right', cell: ({ tally }) => showShort(tally.input_tokens + tally.output_tokens) },
  { head: 'Cost', align: 'right', cell: ({ tally }) => showCost(tally.cost_microusd) },
];
