import { Link } from '@tanstack/react-router';
import type { RequestFilter } from '#server/contract/requests.ts';
import type { Range } from '../../lib/search/filter.ts';
import type { Group, Ranking } from '../../lib/feed/live-store.ts';
import { type NameOf, useKeyNames } from '../../lib/api/names.ts';
import { showCount, showPercent, showShort } from '../../lib/format/show.ts';
import { requestCountOf, errorShareOf } from '../../lib/feed/tally.ts';
import { SumCost } from '../../ui/estimate.tsx';
import { Card } from '../../ui/layout/parts.tsx';
import { type Column, Table } from '../../ui/layout/table.tsx';
import { RowLink } from './row-link.tsx';

const TITLES = { key: 'By key', model: 'By model' } as const;

type GroupsProps = {
  by: 'key' | 'model';
  ranking: Ranking;
  /** Rows beyond the report's bound. */ omitted: number;
  filter: RequestFilter;
  range: Range;
};

/** The keys or models with the most requests. */
export function Groups({ by, ranking: { first, count }, omitted, filter, range }: GroupsProps) {
  const nameOf = useKeyNames();
  const more = count - first.length;
  return (
    <Card
      title={TITLES[by]}
      flush
      actions={
        <Link to="/usage" search={{ ...filter, range, group: by }} className="text-accent hover:underline">
          Usage
        </Link>
      }
    >
      <div className="min-h-64">
        <Table
          label={TITLES[by]}
          keyOf={({ id }) => id}
          rows={first}
          empty={<p className="grid h-64 place-items-center text-muted">No requests in this time range.</p>}
          columns={columnsOf({ by, filter, range, nameOf })}
        />
        {more > 0 && (
          <p className="px-4 py-2 text-muted">
            {showCount(more)}
            {omitted > 0 ? '+' : ''} more
          </p>
        )}
      </div>
    </Card>
  );
}

const columnsOf = ({
  by,
  filter,
  range,
  nameOf,
}: Pick<GroupsProps, 'by' | 'filter' | 'range'> & { nameOf: NameOf }): Column<Group>[] => [
  {
    head: by === 'key' ? 'Key' : 'Model',
    cell: ({ id }) => {
      if (id === '')
        return (
          <span className="text-muted" title="Rejected before its model was read">
            None
          </span>
        );
      return by === 'key' ? (
        <RowLink text={nameOf(id)} filter={filter} range={range} keyId={id} className="max-w-44" />
      ) : (
        <RowLink text={id} filter={filter} range={range} model={id} className="max-w-44" />
      );
    },
  },
  { head: 'Requests', align: 'right', cell: ({ tally }) => showShort(requestCountOf(tally)) },
  {
    head: 'Errors',
    align: 'right',
    isExtra: true,
    cell: ({ tally }) => showPercent(errorShareOf(tally) ?? 0),
  },
  {
    head: 'Tokens',
    align: 'right',
    cell: ({ tally }) => showShort(tally.input_tokens + tally.output_tokens),
  },
  { head: 'Cost', align: 'right', cell: ({ tally }) => <SumCost sum={tally} /> },
];
