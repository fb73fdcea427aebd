import type { RequestCorrection, RequestDetail } from '#server/contract/requests.ts';
import { describeActor, useMemberNames } from '../../lib/api/names.ts';
import { showCost, showCount } from '../../lib/format/show.ts';
import { When } from '../../ui/when.tsx';

const NAMES = {
  cost_nanousd: 'charge',
  upstream_cost_nanousd: 'upstream cost',
  input_tokens: 'input tokens',
  cache_read_tokens: 'cached tokens',
  cache_write_tokens: 'cache write tokens',
  output_tokens: 'output tokens',
  reasoning_tokens: 'reasoning tokens',
  hold_tokens: 'charged tokens',
} as const satisfies { [Figure in keyof RequestCorrection]?: string };
type CorrectedFigure = keyof typeof NAMES;
const FIGURES = Object.keys(NAMES) as CorrectedFigure[];

const showFigure = (figure: CorrectedFigure, amount: number): string =>
  figure.endsWith('_nanousd') ? showCost(amount) : showCount(amount);

/** The corrections of a request, and its figures after them. */
export function Corrections({ detail }: { detail: RequestDetail }) {
  const memberName = useMemberNames();
  const { corrected, corrections } = detail;
  if (corrected === null) return null;
  const changed = FIGURES.filter((figure) => corrections.some((each) => (each[figure] ?? 0) !== 0));
  return (
    <div className="flex flex-col gap-3">
      <ul className="flex flex-col divide-y divide-line rounded-lg border border-line">
        {corrections.map((each) => (
          <li key={each.position} className="flex flex-col gap-0.5 px-3 py-2">
            <p className="flex flex-wrap items-baseline justify-between gap-x-3">
              <span className="font-medium">{changesOf(each).join(', ')}</span>
              <span className="text-xs text-muted">
                <When time={each.at} />
              </span>
            </p>
            <p className="break-words">{each.reason}</p>
            <p className="text-xs break-all text-muted">
              {each.reference} · by {describeActor(each.adjusted_by, memberName)}
            </p>
          </li>
        ))}
      </ul>
      <p>
        {'Corrected: '}
        {changed
          .flatMap((figure) => {
            const amount = corrected[figure];
            return amount == null ? [] : [`${NAMES[figure]} ${showFigure(figure, amount)}`];
          })
          .join(', ')}
        .
      </p>
    </div>
  );
}

function changesOf(correction: RequestCorrection): string[] {
  return FIGURES.flatMap((figure) => {
    const amount = correction[figure] ?? 0;
    if (amount === 0) return [];
    return [`${amount < 0 ? '−' : '+'}${showFigure(figure, Math.abs(amount))} ${NAMES[figure]}`];
  });
}
