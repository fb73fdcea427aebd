import { type Range, RANGES } from '../../lib/filter-search.ts';
import type { LiveView } from '../../lib/live-store.ts';
import { showCost, showCount, showDuration, showPercent, showShort } from '../../lib/show.ts';
import { callsOf, errorShareOf } from '../../lib/tally.ts';
import { Sparkline } from '../../ui/chart/sparkline.tsx';
import { Figure } from '../../ui/parts.tsx';

const TIMES: Record<Range, string> = { '15m': 'in 15 min', '1h': 'in 1 h', '24h': 'in 24 h', '7d': 'in 7 days', '30d': 'in 30 days' };

/** The few figures that people look for first. */
export function Figures({ view: { total, firstByte, perSecond, seconds }, range }: { view: LiveView; range: Range }) {
  const calls = callsOf(total);
  const share = errorShareOf(total);
  const rate = perSecond ?? calls / (RANGES[range] / 1_000);
  return (
    <section aria-label="Figures" className="grid grid-cols-2 gap-px overflow-hidden rounded-xl border border-line bg-line *:bg-surface lg:grid-cols-5">
      <div className="relative max-lg:col-span-2">
        <Figure label="Requests per second" value={showRate(rate)} note={`${showCount(calls)} ${TIMES[range]}`} />
        <Sparkline values={seconds} className="pointer-events-none absolute top-9 right-4 h-7 w-20" />
      </div>
      <Figure label="Refused or failed" value={share === null ? '–' : showPercent(share)} note={`${showCount(total.refused)} refused, ${showCount(total.failed)} failed`} />
      <Figure label="First token, median" value={firstByte ? showDuration(firstByte.p50_ms) : '–'} note={firstByte ? `95 % within ${showDuration(firstByte.p95_ms)}` : ''} />
      <Figure label="Tokens" value={showShort(total.input_tokens + total.output_tokens)} note={`${showShort(total.input_tokens)} in, ${showShort(total.output_tokens)} out`} />
      <Figure label="Spend" value={showCost(total.cost_microusd)} note={TIMES[range]} />
    </section>
  );
}

/** As fine as it tells something: 200, 12.4, 0.05, 0. */
function showRate(rate: number): string {
  if (rate >= 100) return showCount(Math.round(rate));
  return rate >= 0.1 ? rate.toFixed(1) : rate >= 0.01 ? rate.toFixed(2) : '0';
}
