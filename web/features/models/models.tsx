import type { UseQueryResult } from '@tanstack/react-query';
import { useState } from 'react';
import { formatDollars } from '#db/money.ts';
import type { PriceTerms } from '#db/pricing/parts.ts';
import type { PriceRow, ModelRow } from '#server/contract/models.ts';
import { showCount } from '../../lib/format/show.ts';
import { Button } from '../../ui/button.tsx';
import { Checkbox } from '../../ui/form/field.tsx';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { Badge, Card, Empty } from '../../ui/layout/parts.tsx';
import { actionsColumn, type Column, Table } from '../../ui/layout/table.tsx';
import { priceFor } from './price-match.ts';
import type { PriceWanted } from './set-price.tsx';

type ModelsProps = {
  models: UseQueryResult<ModelRow[]>;
  prices: readonly PriceRow[];
  /** Null without permission. */ onSet: ((wanted: PriceWanted) => void) | null;
};

/** Available models with their effective price and its source. */
export function Models({ models, prices, onSet }: ModelsProps) {
  const [onlyUnpriced, setOnlyUnpriced] = useState(false);
  const unpriced = models.data?.filter((row) => row.price === null).length ?? 0;
  return (
    <Card
      title="Models"
      flush
      actions={
        unpriced > 0 && (
          <Checkbox
            label={`No price set (${showCount(unpriced)})`}
            checked={onlyUnpriced}
            onChange={({ target }) => setOnlyUnpriced(target.checked)}
          />
        )
      }
    >
      {unpriced > 0 && (
        <p className="border-b border-line bg-warn-soft px-4 py-2 text-warn">
          {showCount(unpriced)} {unpriced === 1 ? 'model has' : 'models have'} no price. Their requests have
          no cost, and accounts with a cost quota can’t use them: 403{' '}
          <code className="font-mono text-xs">model_not_priced</code>.
        </p>
      )}
      <Loaded query={models} title="Couldn’t load models">
        {(rows) => (
          <Table
            label="Models"
            rows={onlyUnpriced && unpriced > 0 ? rows.filter((row) => row.price === null) : rows}
            keyOf={({ id }) => id}
            columns={columns(prices, onSet)}
            empty={<NoModels />}
          />
        )}
      </Loaded>
    </Card>
  );
}

function NoModels() {
  return (
    <Empty icon="tag" title="No models available">
      No upstream is configured, or your plan doesn’t include any of their models.
    </Empty>
  );
}

/** A price, or a dash if none is set. */
const dollars = (price: number | undefined) =>
  price === undefined ? <span className="text-muted">–</span> : formatDollars(price);

const termsOf = (row: PriceRow | null): PriceTerms | null =>
  row && (row.rules ? { base: row.base, rules: row.rules } : { base: row.base });

function columns(prices: readonly PriceRow[], onSet: ModelsProps['onSet']): Column<ModelRow>[] {
  const set: Column<ModelRow>[] = onSet
    ? [
        actionsColumn(({ id }) => (
          <Button
            look="quiet"
            className="-my-1.5 max-md:px-1"
            onClick={() => onSet({ model: id, plan: null, now: termsOf(priceFor(id, prices)) })}
            aria-label={`Set price of ${id}`}
          >
            <span>
              Set<span className="max-md:hidden"> price</span>
            </span>
          </Button>
        )),
      ]
    : [];
  return [
    {
      head: 'Model',
      cell: ({ id, price: now }) => (
        <>
          <code className="font-mono text-xs wrap-anywhere">{id}</code>
          <p className="text-xs md:hidden">
            <Price now={now} row={priceFor(id, prices)} model={id} />
          </p>
        </>
      ),
    },
    { head: 'Upstream', cell: ({ upstream }) => upstream, isExtra: true },
    { head: 'Input', align: 'right', cell: ({ price: now }) => dollars(now?.base.input) },
    {
      head: 'Cache read',
      align: 'right',
      cell: ({ price: now }) => dollars(now?.base.cache_read ?? now?.base.input),
      isExtra: true,
    },
    { head: 'Output', align: 'right', cell: ({ price: now }) => dollars(now?.base.output) },
    {
      head: 'Reasoning',
      align: 'right',
      cell: ({ price: now }) => dollars(now?.base.reasoning ?? now?.base.output),
      isExtra: true,
    },
    {
      head: 'Price',
      cell: ({ id, price: now }) => <Price now={now} row={priceFor(id, prices)} model={id} />,
      isExtra: true,
    },
    ...set,
  ];
}

/** The source of the effective price. */
function Price({ now, row, model }: { now: ModelRow['price']; row: PriceRow | null; model: string }) {
  if (now === null) return <Badge tone="warn">No price set</Badge>;
  if (row === null) return null;
  return (
    <span className="text-muted">
      {row.source === 'manual' ? 'Manual' : row.source}
      {row.model !== model && (
        <>
          , as <code className="font-mono text-xs">{row.model}</code>
        </>
      )}
    </span>
  );
}
