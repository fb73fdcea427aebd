import type { UsageFigures } from '#server/contract/usage.ts';
import { showCost, showCount, showDuration, showPercent, showShort } from '../../lib/show.ts';
import { errorShareOf, tallyOf } from '../../lib/tally.ts';
import { Figure } from '../../ui/parts.tsx';

/** The whole time in a few figures. */
export function Totals({ totals }: { totals: UsageFigures }) {
  const {
    requests,
    refused,
    input_tokens,
    cached_tokens,
    output_tokens,
    cost_microusd,
    unpriced,
    first_byte_p50_ms: p50,
    first_byte_p95_ms: p95,
  } = totals;
  const share = errorShareOf(tallyOf(totals));
  return (
    <section
      aria-label="Totals"
      className="grid grid-cols-2 gap-px overflow-hidden rounded-xl border border-line bg-line *:bg-surface lg:grid-cols-4"
    >
      <Figure
        label="Requests"
        value={showCount(requests + refused)}
        note={share === null ? '' : `${showPercent(share)} refused or failed`}
      />
      <Figure
        label="Tokens"
        value={showShort(input_tokens + output_tokens)}
        note={`${showShort(input_tokens)} in${cached_tokens > 0 ? ` (${showShort(cached_tokens)} cached)` : ''}, ${showShort(output_tokens)} out`}
      />
      <Figure
        label="Spend"
        value={showCost(cost_microusd)}
        note={unpriced > 0 ? `${showCount(unpriced)} calls without a price` : ''}
      />
      <Figure
        label="First token, median"
        value={p50 == null ? '–' : showDuration(p50)}
        note={p95 == null ? '' : `95 % within ${showDuration(p95)}`}
      />
    </section>
  );
}
