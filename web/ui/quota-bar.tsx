import { limitTitle } from '#db/limits/titles.ts';
import type { ForecastRow, LimitRow } from '#server/contract/limits.ts';
import { forecastLine, showAhead } from '../lib/format/forecast.ts';
import { atTime, exhaustedAtMs } from '../lib/format/limit-windows.ts';
import { isBalance, showAmount } from '../lib/format/limits.ts';
import { useZone } from '../lib/hooks/preferences.ts';
import { showDuration, showShort, showTime } from '../lib/format/show.ts';
import { useNow } from '../lib/hooks/use-now.ts';
import { Badge } from './layout/parts.tsx';
import { Meter } from './meter.tsx';

/** One limit: used, reserved and remaining amounts, the reset time and a forecast. */
export function QuotaBar({
  row: given,
  forecast,
  isOwnerKnown = false,
  note,
}: {
  row: LimitRow;
  /** Undefined: not loaded, or the limit is not forecast. */ forecast: ForecastRow | undefined;
  /** Whether the surrounding section names the owner. */ isOwnerKnown?: boolean;
  note?: string;
}) {
  const nowMs = useNow();
  const zone = useZone();
  const row = atTime(given, nowMs);
  const { meter, enforcement, used, reserved: held, remaining: free, limit, key_name, resets_at } = row;
  const amount = (value: number): string => showAmount(meter, value, showShort);
  const whose = key_name === null || isOwnerKnown ? '' : ` · Key ${key_name}`;
  const name = isBalance(row) ? 'Prepaid balance' : limitTitle(row);
  const line = forecast === undefined ? null : forecastLine(row, forecast, nowMs, zone);
  // A minute is too short for a forecast.
  const emptyAtMs = row.window === 'minute' ? null : exhaustedAtMs(row, nowMs);
  return (
    <div>
      <div className="mb-1.5 flex flex-wrap items-baseline justify-between gap-x-4">
        <p className="min-w-0 truncate">
          <span className="font-medium">{name}</span>
          <span className="text-muted">{whose}</span> {enforcement === 'observe' && <Badge>Observed</Badge>}
        </p>
        {resets_at !== null && (
          <p className="text-xs text-muted" title={showTime(resets_at, zone)}>
            Resets in{' '}
            {showDuration(Math.max(1_000, Math.round((Date.parse(resets_at) - nowMs) / 1_000) * 1_000))}
          </p>
        )}
      </div>
      <Meter
        label={key_name === null ? name : `${name}, key ${key_name}`}
        used={used}
        reserved={held}
        limit={limit}
      />
      <p className="mt-1.5 text-muted">
        {meter === 'concurrent' ? (
          <>
            <span className="font-medium text-ink">{amount(used + held)}</span> of {amount(limit)} in use
          </>
        ) : (
          <>
            <span className="font-medium text-ink">{amount(used)}</span> of {amount(limit)} used
            {held > 0 && ` · ${amount(held)} reserved`}
          </>
        )}
        {` · ${amount(free)} left`}
      </p>
      {note !== undefined && <p className="text-xs text-muted">{note}</p>}
      {/* Reserves its height to avoid a layout shift. */}
      <p className="min-h-5 text-xs leading-5">
        {free <= 0 ? (
          <span className="text-warn">
            Limit reached. Requests {enforcement === 'observe' ? 'would be' : 'are'} rejected until{' '}
            {meter === 'concurrent' ? 'one finishes' : 'the reset'}.
          </span>
        ) : line !== null ? (
          <span className={line.isOver ? 'text-warn' : 'text-muted'}>{line.text}</span>
        ) : (
          emptyAtMs !== null && (
            <span className="text-warn">
              Exhausted {showAhead(emptyAtMs, nowMs, zone)} at the current pace
            </span>
          )
        )}
      </p>
    </div>
  );
}
