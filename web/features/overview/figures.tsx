import type { UsageReport } from '#server/contract/usage.ts';
import type { LiveView } from '../../lib/feed/live-store.ts';
import { useZone } from '../../lib/hooks/preferences.ts';
import {
  showCount,
  showDecimal,
  showDuration,
  showPercent,
  showShort,
  showTime,
} from '../../lib/format/show.ts';
import { correctedPart, estimatedShare } from '../../lib/format/usage-source.ts';
import { requestCountOf, errorShareOf } from '../../lib/feed/tally.ts';
import { SumCost } from '../../ui/estimate.tsx';
import { Sparkline } from '../../ui/chart/sparkline.tsx';
import { Figure } from '../../ui/layout/parts.tsx';

/** Longer ranges are labelled with the date. */
const DAY_MS = 86_400_000;

/** Key figures of the selected range. */
export function Figures({
  view: { total, firstByte, perSecond, seconds },
  report,
}: {
  view: LiveView;
  /** The report that the live figures started from. */ report: UsageReport;
}) {
  const zone = useZone();
  const lengthMs = Date.parse(report.to) - Date.parse(report.from);
  const since = `since ${showTime(report.from, zone, lengthMs < DAY_MS ? 'minute' : 'day')}`;
  const calls = requestCountOf(total);
  const share = errorShareOf(total);
  const rate = perSecond ?? calls / (lengthMs / 1_000);
  return (
    <section
      aria-label="Figures"
      className={[
        'grid grid-cols-2 gap-px overflow-hidden rounded-xl border border-line bg-line',
        '*:bg-surface lg:grid-cols-5',
      ].join(' ')}
    >
      <div className="relative max-lg:col-span-2">
        <Figure label="Requests per second" value={showRate(rate)} note={`${showCount(calls)} ${since}`} />
        <Sparkline values={seconds} className="pointer-events-none absolute top-9 right-4 h-7 w-20" />
      </div>
      <Figure
        label="Errors"
        value={share === null ? '–' : showPercent(share)}
        note={`${showCount(total.rejected)} rejected, ${showCount(total.failed)} failed`}
      />
      <Figure
        label="Time to first token (median)"
        value={firstByte ? showDuration(firstByte.p50_ms) : '–'}
        note={firstByte ? `95th percentile ${showDuration(firstByte.p95_ms)}` : ''}
      />
      <Figure
        label="Tokens"
        value={showShort(total.input_tokens + total.output_tokens)}
        note={`${showShort(total.input_tokens)} input, ${showShort(total.output_tokens)} output`}
      />
      <Figure
        label="Cost"
        value={<SumCost sum={total} />}
        note={[estimatedShare(total), correctedPart(total), since].filter((part) => part !== null).join(', ')}
      />
    </section>
  );
}

/** A rate with as many digits as are meaningful: 200, 12.4, 0.05, 0. */
function showRate(rate: number): string {
  if (rate >= 100) return showCount(Math.round(rate));
  return rate >= 0.01 ? showDecimal(rate, rate >= 0.1 ? 1 : 2) : '0';
}
