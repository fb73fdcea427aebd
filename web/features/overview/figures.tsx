import type { UsageReport } from '#server/contract/usage.ts';
import type { LiveView } from '../../lib/live-store.ts';
import { useZone } from '../../lib/preferences.ts';
import { showCost, showCount, showDuration, showPercent, showShort, showTime } from '../../lib/show.ts';
import { callsOf, errorShareOf } from '../../lib/tally.ts';
import { Sparkline } from '../../ui/chart/sparkline.tsx';
import { Figure } from '../../ui/parts.tsx';

/** Beyond it the time of day alone does not tell which day is meant. */
const DAY_MS = 86_400_000;

/** The few figures that people look for first. */
export function Figures({
  view: { total, firstByte, perSecond, seconds },
  report,
}: {
  view: LiveView;
  /** What they began with. */ report: UsageReport;
}) {
  const zone = useZone();
  const lengthMs = Date.parse(report.to) - Date.parse(report.from);
  const since = `since ${showTime(report.from, zone, lengthMs < DAY_MS ? 'minute' : 'day')}`;
  const calls = callsOf(total);
  const share = errorShareOf(total);
  const rate = perSecond ?? calls / (lengthMs / 1_000);
  return (
    <section
      aria-label="Figures"
      className="grid grid-cols-2 gap-px overflow-hidden rounded-xl border border-line bg-line *:bg-surface lg:grid-cols-5"
    >
      <div className="relative max-lg:col-span-2">
        <Figure label="Requests per second" value={showRate(rate)} note={`${showCount(calls)} ${since}`} />
        <Sparkline values={seconds} className="pointer-events-none absolute top-9 right-4 h-7 w-20" />
      </div>
      <Figure
        label="Refused or failed"
        value={share === null ? '–' : showPercent(share)}
        note={`${showCount(total.refused)} refused, ${showCount(total.failed)} failed`}
      />
      <Figure
        label="First token, median"
        value={firstByte ? showDuration(firstByte.p50_ms) : '–'}
        note={firstByte ? `95 % within ${showDuration(firstByte.p95_ms)}` : ''}
      />
      <Figure
        label="Tokens"
        value={showShort(total.input_tokens + total.output_tokens)}
        note={`${showShort(total.input_tokens)} in, ${showShort(total.output_tokens)} out`}
      />
      <Figure label="Spend" value={showCost(total.cost_microusd)} note={since} />
    </section>
  );
}

/** As fine as it tells something: 200, 12.4, 0.05, 0. */
function showRate(rate: number): string {
  if (rate >= 100) return showCount(Math.round(rate));
  return rate >= 0.1 ? rate.toFixed(1) : rate >= 0.01 ? rate.toFixed(2) : '0';
}
