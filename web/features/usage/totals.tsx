import type { UsageFigures } from '#server/contract/usage.ts';
import {
  showCost,
  showCount,
  showCounted,
  showDuration,
  showPercent,
  showShort,
} from '../../lib/format/show.ts';
import { errorShareOf, tallyOf } from '../../lib/feed/tally.ts';
import { Figure } from '../../ui/layout/parts.tsx';

/** Totals of the selected range. */
export function Totals({ totals }: { totals: UsageFigures }) {
  const {
    requests,
    refused,
    input_tokens,
    cache_read_tokens,
    output_tokens,
    cost_nanousd,
    unpriced,
    first_byte_p50_ms: p50,
    first_byte_p95_ms: p95,
  } = totals;
  const cached = cache_read_tokens > 0 ? ` (${showShort(cache_read_tokens)} cached)` : '';
  const share = errorShareOf(tallyOf(totals));
  return (
    <section
      aria-label="Totals"
      className={[
        'grid grid-cols-2 gap-px overflow-hidden rounded-xl border border-line bg-line',
        '*:bg-surface lg:grid-cols-4',
      ].join(' ')}
    >
      <Figure
        label="Requests"
        value={showCount(requests + refused)}
        note={share === null ? '' : `${showPercent(share)} errors`}
      />
      <Figure
        label="Tokens"
        value={showShort(input_tokens + output_tokens)}
        note={`${showShort(input_tokens)} input${cached}, ${showShort(output_tokens)} output`}
      />
      <Figure
        label="Cost"
        value={showCost(cost_nanousd)}
        note={unpriced > 0 ? `${showCounted(unpriced, 'request')} without a price` : ''}
      />
      <Figure
        label="Time to first token (median)"
        value={p50 == null ? '–' : showDuration(p50)}
        note={p95 == null ? '' : `95th percentile ${showDuration(p95)}`}
      />
    </section>
  );
}
