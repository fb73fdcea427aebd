import type { UseQueryResult } from '@tanstack/react-query';
import { useState } from 'react';
import { formatDollars } from '#db/money.ts';
import type { PriceRow } from '#server/contract/models.ts';
import { showCount } from '../../lib/show.ts';
import { Button } from '../../ui/button.tsx';
import { Loaded } from '../../ui/loaded.tsx';
import { Card, Empty } from '../../ui/parts.tsx';
import { SearchBox } from '../../ui/search-box.tsx';
import { actionsColumn, type Column, Table } from '../../ui/table.tsx';
import type { PriceWanted } from './set-price.tsx';

/** An import brings hundreds; nobody reads them all. */
const SHOWN_MAX = 50;

/** Every price that was set, by hand or by an import. */
export function Prices({
  prices,
  onSet,
}: {
  prices: UseQueryResult<PriceRow[]>;
  onSet: ((wanted: PriceWanted) => void) | null;
}) {
  const [text, setText] = useState('');
  const total = prices.data?.length ?? 0;
  return (
    <Card
      title="Prices"
      flush
      actions={total > 0 && <SearchBox label="Search prices" value={text} onChange={setText} />}
    >
      <Loaded query={prices} title="The prices could not be loaded">
        {(rows) => {
          const found = rows.filter(({ model, source }) =>
            `${model} ${source}`.toLowerCase().includes(text.trim().toLowerCase()),
          );
          return (
            <>
              <Table
                label="Prices"
                rows={found.slice(0, SHOWN_MAX)}
                keyOf={({ model }) => model}
                columns={columns(onSet)}
                empty={
                  total === 0 ? (
                    <NoPrices />
                  ) : (
                    <p className="px-4 py-6 text-muted">No price has this in its name.</p>
                  )
                }
              />
              {found.length > SHOWN_MAX && (
                <p className="border-t border-line px-4 py-2.5 text-muted">
                  and {showCount(found.length - SHOWN_MAX)} more: search for a name to see it.
                </p>
              )}
            </>
          );
        }}
      </Loaded>
      <p className="border-t border-line px-4 py-2.5 text-xs text-muted">
        A price by a model's full name goes before one by its beginning (
        <code className="font-mono">gpt-4o*</code>), a longer beginning before a shorter one. Letter case
        makes no difference. A new price holds for calls that begin from then on.
      </p>
    </Card>
  );
}

function NoPrices() {
  return (
    <Empty icon="tag" title="No price is set yet">
      Import those of your providers from the list that is installed, or set them by hand. Until then calls
      have no cost.
    </Empty>
  );
}

const showSource = (source: string, version: number): string =>
  `${source === 'manual' ? 'by hand' : source}, version ${version}`;

function columns(onSet: ((wanted: PriceWanted) => void) | null): Column<PriceRow>[] {
  const change: Column<PriceRow>[] = onSet
    ? [
        actionsColumn(({ model, prices }) => (
          <Button
            look="quiet"
            className="-my-1.5 max-md:px-1"
            onClick={() => onSet({ model, now: prices })}
            aria-label={`Change the price of ${model}`}
          >
            Change
          </Button>
        )),
      ]
    : [];
  return [
    {
      head: 'Model',
      cell: ({ model, source, version }) => (
        <>
          <code className="font-mono text-xs wrap-anywhere">{model}</code>
          <p className="text-xs text-muted md:hidden">{showSource(source, version)}</p>
        </>
      ),
    },
    { head: 'Input', align: 'right', cell: ({ prices }) => formatDollars(prices.input) },
    {
      head: 'Cached',
      align: 'right',
      cell: ({ prices }) => formatDollars(prices.cached_input),
      isExtra: true,
    },
    { head: 'Output', align: 'right', cell: ({ prices }) => formatDollars(prices.output) },
    {
      head: 'Reasoning',
      align: 'right',
      cell: ({ prices }) => formatDollars(prices.reasoning),
      isExtra: true,
    },
    {
      head: 'From',
      cell: ({ source, version }) => <span className="text-muted">{showSource(source, version)}</span>,
      isExtra: true,
    },
    ...change,
  ];
}
