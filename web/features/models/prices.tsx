import type { UseQueryResult } from '@tanstack/react-query';
import { useState } from 'react';
import { formatDollars } from '#db/money.ts';
import type { Rate, Rule } from '#db/pricing/parts.ts';
import type { PriceRow } from '#server/contract/models.ts';
import { showCount } from '../../lib/format/show.ts';
import { Button } from '../../ui/button.tsx';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { Card, Empty } from '../../ui/layout/parts.tsx';
import { SearchBox } from '../../ui/form/search-box.tsx';
import { actionsColumn, type Column, Table } from '../../ui/layout/table.tsx';
import { PRICE_FIELDS, showConditions, showRate } from './price-match.ts';
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
          const found = rows.filter(({ model, plan, source }) =>
            `${model} ${plan ?? ''} ${source}`.toLowerCase().includes(text.trim().toLowerCase()),
          );
          return (
            <>
              <Table
                label="Prices"
                rows={found.slice(0, SHOWN_MAX)}
                keyOf={({ model, plan }) => `${plan ?? ''}/${model}`}
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

/** A price, or a dash if none is set. */
const dollars = (price: number | undefined) =>
  price === undefined ? <span className="text-muted">–</span> : formatDollars(price);

/** The parts without a column, and the rules: the first whose conditions hold replaces parts. */
function OtherParts({ base, rules }: { base: Rate; rules: readonly Rule[] }) {
  const rest = showRate(base, PRICE_FIELDS);
  return (
    <>
      {rest !== '' && <p className="text-xs text-muted">{rest}</p>}
      {rules.map(({ when, rate }, index) => (
        <p key={index} className="text-xs text-muted">
          {showConditions(when, showCount)}: {showRate(rate)}
        </p>
      ))}
    </>
  );
}

function columns(onSet: ((wanted: PriceWanted) => void) | null): Column<PriceRow>[] {
  const change: Column<PriceRow>[] = onSet
    ? [
        actionsColumn(({ model, plan, base, rules }) => (
          <Button
            look="quiet"
            className="-my-1.5 max-md:px-1"
            onClick={() => onSet({ model, plan, now: rules ? { base, rules } : { base } })}
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
      cell: ({ model, plan, base, rules, source, version }) => (
        <>
          <code className="font-mono text-xs wrap-anywhere">{model}</code>
          {plan !== null && <span className="text-xs text-muted"> charged on plan {plan}</span>}
          <OtherParts base={base} rules={rules ?? []} />
          <p className="text-xs text-muted md:hidden">{showSource(source, version)}</p>
        </>
      ),
    },
    { head: 'Input', align: 'right', cell: ({ base }) => dollars(base.input) },
    {
      head: 'Cache read',
      align: 'right',
      cell: ({ base }) => dollars(base.cache_read ?? base.input),
      isExtra: true,
    },
    {
      head: 'Cache write',
      align: 'right',
      cell: ({ base }) => dollars(base.cache_write_5m ?? base.input),
      isExtra: true,
    },
    { head: 'Output', align: 'right', cell: ({ base }) => dollars(base.output) },
    {
      head: 'Reasoning',
      align: 'right',
      cell: ({ base }) => dollars(base.reasoning ?? base.output),
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
