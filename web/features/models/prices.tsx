import type { UseQueryResult } from '@tanstack/react-query';
import { useState } from 'react';
import { formatDollars } from '#db/money.ts';
import type { PriceRow } from '#server/contract/models.ts';
import { showCount } from '../../lib/format/show.ts';
import { Button } from '../../ui/button.tsx';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { Card, Empty } from '../../ui/layout/parts.tsx';
import { SearchBox } from '../../ui/form/search-box.tsx';
import { actionsColumn, type Column, Table } from '../../ui/layout/table.tsx';
import type { PriceWanted } from './set-price.tsx';

/** An import can add hundreds; longer lists are searched. */
const SHOWN_MAX = 50;

/** Every price, set manually or by an import. */
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
      <Loaded query={prices} title="Couldn’t load prices">
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
                  total === 0 ? <NoPrices /> : <p className="px-4 py-6 text-muted">No matching prices.</p>
                }
              />
              {found.length > SHOWN_MAX && (
                <p className="border-t border-line px-4 py-2.5 text-muted">
                  {showCount(found.length - SHOWN_MAX)} more. Search to find them.
                </p>
              )}
            </>
          );
        }}
      </Loaded>
      <p className="border-t border-line px-4 py-2.5 text-xs text-muted">
        An exact name takes precedence over a prefix (<code className="font-mono text-xs">gpt-4o*</code>), and
        a longer prefix over a shorter one. Changes apply to new requests.
      </p>
    </Card>
  );
}

function NoPrices() {
  return (
    <Empty icon="tag" title="No prices yet">
      Import prices for your providers or set them manually. Until then requests have no cost.
    </Empty>
  );
}

const showSource = (source: string, version: number): string =>
  `${source === 'manual' ? 'Manual' : source}, version ${version}`;

function columns(onSet: ((wanted: PriceWanted) => void) | null): Column<PriceRow>[] {
  const change: Column<PriceRow>[] = onSet
    ? [
        actionsColumn(({ model, prices }) => (
          <Button
            look="quiet"
            className="-my-1.5 max-md:px-1"
            onClick={() => onSet({ model, now: prices })}
            aria-label={`Edit price of ${model}`}
          >
            Edit
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
      head: 'Source',
      cell: ({ source, version }) => <span className="text-muted">{showSource(source, version)}</span>,
      isExtra: true,
    },
    ...change,
  ];
}
