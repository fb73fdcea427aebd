import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import type { RequestFilter } from '#server/contract/requests.ts';
import type { RecentRequest } from '../../lib/feed/recent-requests.ts';
import { type NameOf, useKeyNames } from '../../lib/api/names.ts';
import { OUTCOME_WORDS } from '../../lib/format/outcomes.ts';
import { useZone } from '../../lib/hooks/preferences.ts';
import { showCost, showCount, showDuration, showShort, showTime, type Zone } from '../../lib/format/show.ts';
import { Estimate } from '../../ui/estimate.tsx';
import { Badge, Card, type Tone } from '../../ui/layout/parts.tsx';
import { type Column, Table } from '../../ui/layout/table.tsx';
import { RowLink } from './row-link.tsx';

const TONES: Record<RecentRequest['outcome'], Tone> = {
  completed: 'success',
  client_disconnected: 'plain',
  upstream_failed: 'danger',
  cut_short: 'warn',
  relay_failed: 'danger',
  refused: 'warn',
  running: 'plain',
};

type Snapshot = { calls: readonly RecentRequest[]; endings: number };

/** The most recently ended requests. The list pauses while it is hovered or focused. */
export function RecentRequests({
  calls,
  endings,
  filter,
}: {
  calls: readonly RecentRequest[];
  /** Counts ended requests. */ endings: number;
  filter: RequestFilter;
}) {
  const nameOf = useKeyNames();
  const zone = useZone();
  const [paused, setSnapshot] = useState<Snapshot | null>(null);
  const pause = (): void => setSnapshot((before) => before ?? { calls, endings });
  const resume = (): void => setSnapshot(null);
  const shown = paused?.calls ?? calls;
  const missed = paused ? endings - paused.endings : 0;
  return (
    <Card
      title="Recent requests"
      flush
      actions={
        <>
          {missed > 0 && <span className="text-muted">{showCount(missed)} new</span>}
          <Link to="/requests" search={filter} className="text-accent hover:underline">
            All requests
          </Link>
        </>
      }
    >
      <div
        className="min-h-[27rem]"
        onPointerEnter={pause}
        onPointerLeave={({ currentTarget }) => currentTarget.contains(document.activeElement) || resume()}
        onFocus={pause}
        onBlur={({ currentTarget, relatedTarget }) =>
          currentTarget.contains(relatedTarget) || currentTarget.matches(':hover') || resume()
        }
      >
        <Table
          label="Recent requests"
          keyOf={({ request, at }) => `${request} ${at}`}
          rows={shown}
          empty={
            <p className="grid h-[27rem] place-items-center text-muted">No requests in the last 24 hours.</p>
          }
          columns={columnsOf(filter, nameOf, zone)}
        />
      </div>
    </Card>
  );
}

const columnsOf = (filter: RequestFilter, nameOf: NameOf, zone: Zone): Column<RecentRequest>[] => [
  {
    head: 'Time',
    cell: ({ request, at }) => (
      <RowLink text={showTime(at, zone, 'time')} filter={filter} request={request} />
    ),
  },
  {
    head: 'Outcome',
    cell: ({ outcome, rejected_count }) => (
      <Badge tone={TONES[outcome]}>
        {OUTCOME_WORDS[outcome]}
        {rejected_count !== null && rejected_count > 1 ? ` × ${showCount(rejected_count)}` : ''}
      </Badge>
    ),
  },
  {
    head: 'Status',
    cell: ({ status, error_code }) => <span title={error_code ?? undefined}>{status ?? '–'}</span>,
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
    head: <abbr title="Input tokens → output tokens">Tokens</abbr>,
    align: 'right',
    cell: ({ input_tokens, output_tokens, usage_source }) => (
      <span className="whitespace-nowrap">
        {input_tokens === null && output_tokens === null ? (
          '–'
        ) : (
          <Estimate source={usage_source}>
            {showShort(input_tokens ?? 0)} → {showShort(output_tokens ?? 0)}
          </Estimate>
        )}
      </span>
    ),
  },
  {
    head: 'Cost',
    align: 'right',
    cell: ({ cost_nanousd, usage_source }) =>
      cost_nanousd === null ? '–' : <Estimate source={usage_source}>{showCost(cost_nanousd)}</Estimate>,
  },
];
