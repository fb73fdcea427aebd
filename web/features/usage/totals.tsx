import type { UsageFigures } from '#server/contract/usage.ts';
import {
  showCost,
  showCount,
  showCounted,
  showDuration,
  showPercent,
  showShort,
} from '../../lib/format/show.ts';
import { correctedPart, estimatedShare } from '../../lib/format/usage-source.ts';
import { errorShareOf, tallyOf } from '../../lib/feed/tally.ts';
import { SumCost } from '../../ui/estimate.tsx';
import { Figure } from '../../ui/layout/parts.tsx';

/** Totals of the selected range. */
export function Totals({ totals }: { totals: UsageFigures }) {
  const {
    requests,
    refused,
    input_tokens,
    cache_read_tokens,
    output_tokens,
    upstream_cost_nanousd: upstream,
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
        value={<SumCost sum={totals} />}
        note={[
          upstream === undefined ? null : `${showCost(upstream)} upstream cost`,
          estimatedShare(totals),
          correctedPart(totals),
          unpriced > 0 ? `${showCounted(unpriced, 'request')} without a price` : null,
        ]
          .filter((part) => part !== null)
          .join(', ')}
      />
      <Figure
        label="Time to first token (median)"
        value={p50 == null ? '–' : showDuration(p50)}
        note={p95 == null ? '' : `95th percentile ${showDuration(p95)}`}
      />
    </section>
  );
}
