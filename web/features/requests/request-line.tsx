import { memo, type ReactNode } from 'react';
import type { RequestRow } from '#server/contract/requests.ts';
import type { NameOf } from '../../lib/api/names.ts';
import {
  isOtherYear,
  showCost,
  showCount,
  showDuration,
  showTime,
  type Zone,
} from '../../lib/format/show.ts';
import { AttributedValue } from '../../ui/attribution/attributed.tsx';
import { Estimate } from '../../ui/estimate.tsx';
import { OutcomeOf } from './outcome.tsx';

/**
 * Available width: `wide` shows every column, `middle` omits optional ones, `narrow` uses two lines per row.
 */
export type Room = 'wide' | 'middle' | 'narrow';
export const LINE_HEIGHT_PX: Record<Room, number> = { wide: 34, middle: 34, narrow: 56 };

/** Names and time settings used by the cells. */
export type CellContext = {
  zone: Zone;
  /** Updated every minute. */ nowMs: number;
  keyName: NameOf;
  accountName: NameOf;
  hasAccounts: boolean;
};

/** Columns that not every list has. */
export type Extra = { hasAccounts: boolean; hasEndUsers: boolean };

type Column = {
  name: string;
  /** Explains an abbreviated name. */ title?: string;
  width: string;
  isRight?: boolean;
  isShown: (room: Room, extra: Extra) => boolean;
  cell: (row: RequestRow, context: CellContext) => ReactNode;
};

const always = (): boolean => true;
const inWide = (room: Room): boolean => room === 'wide';
const none = <span className="text-muted">–</span>;

const COLUMNS: readonly Column[] = [
  {
    name: 'Time',
    width: '6.25rem',
    isShown: always,
    cell: ({ accepted_at }, context) => <Time time={accepted_at} context={context} />,
  },
  { name: 'Outcome', width: '9.5rem', isShown: always, cell: (row) => <OutcomeOf row={row} /> },
  { name: 'Model', width: 'minmax(7rem,1.2fr)', isShown: always, cell: (row) => <ModelOf row={row} /> },
  { name: 'Key', width: 'minmax(5rem,1fr)', isShown: always, cell: ({ key }, { keyName }) => keyName(key) },
  {
    name: 'Account',
    width: 'minmax(5rem,1fr)',
    isShown: (room, { hasAccounts }) => inWide(room) && hasAccounts,
    cell: ({ account }, { accountName }) => accountName(account),
  },
  {
    name: 'End user',
    width: 'minmax(5.5rem,1fr)',
    isShown: (room, { hasEndUsers }) => inWide(room) && hasEndUsers,
    cell: (row) => <EndUserOf row={row} />,
  },
  {
    name: 'TTFT',
    title: 'Time to first token',
    width: '4.75rem',
    isRight: true,
    isShown: inWide,
    cell: ({ first_byte_ms }) => (first_byte_ms === null ? none : showDuration(first_byte_ms)),
  },
  {
    name: 'Duration',
    width: '5rem',
    isRight: true,
    isShown: always,
    cell: ({ duration_ms }) => (duration_ms === null ? none : showDuration(duration_ms)),
  },
  {
    name: 'Tokens',
    title: 'Input tokens → output tokens',
    width: '8rem',
    isRight: true,
    isShown: always,
    cell: (row) => <TokensOf row={row} />,
  },
  {
    name: 'Cost',
    width: '6.25rem',
    isRight: true,
    isShown: always,
    cell: (row) => (row.cost_nanousd === null ? none : <CostOf row={row} />),
  },
];

export const columnsFor = (room: Room, extra: Extra): Column[] =>
  room === 'narrow' ? [] : COLUMNS.filter(({ isShown }) => isShown(room, extra));
export const templateOf = (columns: readonly Column[]): string => columns.map(({ width }) => width).join(' ');

const LINE = [
  'absolute inset-x-0 top-0 cursor-pointer border-b border-line px-4 hover:bg-sunken',
  'focus-visible:bg-sunken focus-visible:outline-offset-[-2px]',
  'aria-[current=true]:bg-accent-soft',
].join(' ');

type LineProps = {
  row: RequestRow;
  index: number;
  startPx: number;
  columns: readonly Column[];
  template: string;
  context: CellContext;
  isReachable: boolean;
  isOpen: boolean;
  onOpen: (request: string) => void;
};

/** One row of the request table. */
export const RequestLine = memo(function RequestLine({
  row,
  index,
  startPx,
  columns,
  template,
  context,
  isReachable,
  isOpen,
  onOpen,
}: LineProps) {
  const isNarrow = columns.length === 0;
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      aria-current={isOpen || undefined}
      data-index={index}
      tabIndex={isReachable ? 0 : -1}
      onClick={() => onOpen(row.request)}
      onKeyDown={(event) => {
        if (event.key !== 'Enter') return;
        event.preventDefault();
        onOpen(row.request);
      }}
      className={isNarrow ? LINE : `grid items-center gap-x-3 ${LINE}`}
      style={{
        height: isNarrow ? LINE_HEIGHT_PX.narrow : LINE_HEIGHT_PX.wide,
        transform: `translateY(${startPx}px)`,
        ...(isNarrow ? {} : { gridTemplateColumns: template }),
      }}
    >
      {isNarrow ? (
        <div role="gridcell" className="flex h-full flex-col justify-center">
          <div className="flex items-center justify-between gap-3">
            <OutcomeOf row={row} />
            <span className="text-muted">
              <Time time={row.accepted_at} context={context} />
            </span>
          </div>
          <div className="flex items-center justify-between gap-3 text-xs text-muted">
            <span className="min-w-0 truncate">
              <ModelOf row={row} /> · {context.keyName(row.key)}
              {row.end_user !== null && (
                <>
                  {' · '}
                  <EndUserOf row={row} />
                </>
              )}
            </span>
            <span className="whitespace-nowrap">
              <TokensOf row={row} />
              {row.cost_nanousd !== null && (
                <>
                  {' · '}
                  <CostOf row={row} />
                </>
              )}
            </span>
          </div>
        </div>
      ) : (
        columns.map(({ name, isRight, cell }) => (
          <div
            key={name}
            role="gridcell"
            className={`min-w-0 truncate ${isRight === true ? 'text-right' : ''}`}
          >
            {cell(row, context)}
          </div>
        ))
      )}
    </div>
  );
});

const DAY_MS = 86_400_000;

/** The time of day, with the date after 24 hours; only the date for other years. */
function Time({ time, context: { zone, nowMs } }: { time: string; context: CellContext }) {
  const form = nowMs - Date.parse(time) < DAY_MS ? 'time' : isOtherYear(time, zone) ? 'date' : 'day';
  return (
    <time dateTime={time} title={showTime(time, zone)}>
      {showTime(time, zone, form)}
    </time>
  );
}

/** The model, with the number of attempts or the error code of a rejected request. */
function ModelOf({ row: { model, error_code, attempt_count: attempts } }: { row: RequestRow }) {
  if (model === null && error_code === null) return none;
  return (
    <>
      {model}
      {attempts !== null && attempts > 1 && (
        <span className="text-xs text-muted"> · {attempts} attempts</span>
      )}
      {error_code !== null && (
        <code className="font-mono text-xs text-muted" title={error_code}>
          {model !== null && ' · '}
          {error_code}
        </code>
      )}
    </>
  );
}

const EndUserOf = ({ row: { account, end_user: pseudonym } }: { row: RequestRow }) =>
  pseudonym === null ? none : <AttributedValue of={{ account, kind: 'end_user', pseudonym }} />;

/**
 * The charge after corrections. The title has the recorded charge and, for those who may see it, the upstream
 * cost where that is another amount.
 */
function CostOf({ row }: { row: RequestRow }) {
  const { corrected, usage_source } = row;
  const { cost_nanousd, upstream_cost_nanousd: upstream } = corrected ?? row;
  const cost = showCost(cost_nanousd ?? 0);
  const titles = [
    ...(corrected === null ? [] : [`Corrected; ${showCost(row.cost_nanousd ?? 0)} as recorded`]),
    ...(upstream == null || upstream === cost_nanousd ? [] : [`Upstream cost ${showCost(upstream)}`]),
  ];
  return (
    <Estimate source={usage_source}>
      {titles.length === 0 ? cost : <span title={titles.join('. ')}>{cost}</span>}
      {corrected !== null && (
        <span className="text-muted">
          <span aria-hidden="true"> *</span>
          <span className="sr-only"> Corrected</span>
        </span>
      )}
    </Estimate>
  );
}

function TokensOf({ row: { outcome, input_tokens, output_tokens, usage_source } }: { row: RequestRow }) {
  if (outcome === 'running')
    return output_tokens === null ? (
      none
    ) : (
      <span className="text-accent">{showCount(output_tokens)} so far</span>
    );
  if (input_tokens === null || output_tokens === null) return none;
  return (
    <Estimate source={usage_source}>
      {showCount(input_tokens)} → {showCount(output_tokens)}
    </Estimate>
  );
}
