import type { RequestDetail } from '#server/contract/requests.ts';
import { describeActor, useMemberNames } from '../../lib/api/names.ts';
import { changesOf, CORRECTED_FIGURES, CORRECTED_NAMES, showFigure } from '../../lib/format/corrections.ts';
import { When } from '../../ui/when.tsx';

/** The corrections of a request, and its figures after them. */
export function Corrections({ detail }: { detail: RequestDetail }) {
  const memberName = useMemberNames();
  const { corrected, corrections } = detail;
  if (corrected === null) return null;
  const changed = CORRECTED_FIGURES.filter((figure) => corrections.some((each) => (each[figure] ?? 0) !== 0));
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
            return amount == null ? [] : [`${CORRECTED_NAMES[figure]} ${showFigure(figure, amount)}`];
          })
          .join(', ')}
        .
      </p>
    </div>
  );
}
