import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import type { RequestFilter } from '#server/contract/requests.ts';
import type { LastCall } from '../../lib/last-calls.ts';
import { type NameOf, useKeyNames } from '../../lib/names.ts';
import { OUTCOME_WORDS } from '../../lib/outcome-words.ts';
import { useZone } from '../../lib/preferences.ts';
import type { Zone } from '../../lib/show.ts';
import { showCost, showCount, showDuration, showShort, showTime } from '../../lib/show.ts';
import { Badge, Card, type Tone } from '../../ui/parts.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { RowLink } from './row-link.tsx';

const TONES: Record<LastCall['outcome'], Tone> = {
  completed: 'good',
  client_gone: 'plain',
  upstream_failed: 'bad',
  cut_short: 'warn',
  relay_failed: 'bad',
  refused: 'warn',
  running: 'plain',
};

type Still = { calls: readonly LastCall[]; endings: number };

/** The newest endings. Whoever points at one, or has the focus on it, sees it stand still. */
export function LastCalls({
  calls,
  endings,
  filter,
}: {
  calls: readonly LastCall[];
  /** Counts those that come. */ endings: number;
  filter: RequestFilter;
}) {
  const nameOf = useKeyNames();
  const zone = useZone();
  const [still, setStill] = useState<Still | null>(null);
  const hold = (): void => setStill((before) => before ?? { calls, endings });
  const letGo = (): void => setStill(null);
  const shown = still?.calls ?? calls;
  const missed = still ? endings - still.endings : 0;
  return (
    <Card
      title="Last requests"
      flush
      actions={
        <>
          {missed > 0 && <span className="text-muted">{showCount(missed)} newer</span>}
          <Link to="/requests" search={filter} className="text-accent hover:underline">
            All requests
          </Link>
        </>
      }
    >
      <div
        className="min-h-[27rem]"
        onPointerEnter={hold}
        onPointerLeave={({ currentTarget }) => currentTarget.contains(document.activeElement) || letGo()}
        onFocus={hold}
        onBlur={({ currentTarget, relatedTarget }) =>
          currentTarget.contains(relatedTarget) || currentTarget.matches(':hover') || letGo()
        }
      >
        <Table
          label="Last requests"
          keyOf={({ request, at }) => `${request} ${at}`}
          rows={shown}
          empty={
            <p className="grid h-[27rem] place-items-center text-muted">
              No request has ended in the last day.
            </p>
          }
          columns={columnsOf(filter, nameOf, zone)}
        />
      </div>
    </Card>
  );
}

const columnsOf = (filter: RequestFilter, nameOf: NameOf, zone: Zone): Column<LastCall>[] => [
  {
    head: 'Time',
    cell: ({ request, at }) => (
      <RowLink text={showTime(at, zone, 'time')} filter={filter} request={request} />
    ),
  },
  {
    head: 'Ending',
    cell: ({ outcome, refused_count }) => (
      <Badge tone={TONES[outcome]}>
        {OUTCOME_WORDS[outcome]}
        {refused_count !== null && refused_count > 1 ? ` × ${showCount(refused_count)}` : ''}
      </Badge>
    ),
  },
  {
    head: 'Status',
    cell: ({ status, refusal }) => <span title={refusal ?? undefined}>{status ?? '–'}</span>,
  },
  { head: 'Model', cell: ({ model }) => <span className="block max-w-48 truncate">{model ?? '–'}</span> },
  { head: 'Key', cell: ({ key }) => <span className="block max-w-40 truncate">{nameOf(key)}</span> },
  {
    head: 'Duration',
    align: 'right',
    cell: ({ duration_ms }) => (
      <span className="whitespace-nowrap">{duration_ms === null ? '–' : showDuration(duration_ms)}</span>
    ),
  },
  {
    head: 'Tokens',
    align: 'right',
    cell: ({ input_tokens, output_tokens }) => (
      <span className="whitespace-nowrap">
        {input_tokens === null && output_tokens === null
          ? '–'
          : `${showShort(input_tokens ?? 0)} in, ${showShort(output_tokens ?? 0)} out`}
      </span>
    ),
  },
  {
    head: 'Cost',
    align: 'right',
    cell: ({ cost_microusd }) => (cost_microusd === null ? '–' : showCost(cost_microusd)),
  },
];
