import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { limitTitle } from '#db/limits/titles.ts';
import type { AdjustmentRow } from '#server/contract/accounts.ts';
import { METERS } from '#db/limits/meters.ts';
import { adjustmentsQuery } from '../../lib/api/adjustments.ts';
import { describeActor, useKeyNames, useMemberNames } from '../../lib/api/names.ts';
import { showAmount } from '../../lib/format/limits.ts';
import { showCount, showCounted } from '../../lib/format/show.ts';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { When } from '../../ui/when.tsx';

const LINK = 'underline hover:text-accent';

/** The newest adjustments of an account's usage, those of one change together. */
export function Adjustments({ account }: { account: string }) {
  const query = useQuery(adjustmentsQuery(account));
  return (
    <section aria-labelledby="adjustments">
      <div className="mb-2 flex items-baseline justify-between gap-3">
        <h3 id="adjustments" className="font-semibold">
          Usage adjustments
        </h3>
        <Link to="/audit" search={{ account, type: 'quota.adjusted' }} className={`text-xs ${LINK}`}>
          View in audit log
        </Link>
      </div>
      <Loaded query={query} title="Couldn’t load adjustments" height="h-10">
        {({ data, rows_omitted: more }) =>
          data.length === 0 ? (
            <p className="text-muted">None.</p>
          ) : (
            <>
              <ul className="flex flex-col divide-y divide-line rounded-lg border border-line">
                {changesOf(data).map((rows) => (
                  <Adjustment key={rows[0].position} rows={rows} />
                ))}
              </ul>
              {more > 0 && (
                <p className="mt-2 text-muted">{showCounted(more, 'older adjustment')} in the audit log.</p>
              )}
            </>
          )
        }
      </Loaded>
    </section>
  );
}

/** The rows of one change, one for each quota. */
type ChangeRows = readonly [AdjustmentRow, ...AdjustmentRow[]];

function changesOf(rows: readonly AdjustmentRow[]): ChangeRows[] {
  const changes = Map.groupBy(rows, ({ at, actor, meter, amount, reason }) =>
    JSON.stringify([at, actor, meter, amount, reason]),
  );
  return [...changes.values()].flatMap(([first, ...rest]) => (first ? [[first, ...rest] as const] : []));
}

function Adjustment({ rows }: { rows: ChangeRows }) {
  const [keyName, memberName] = [useKeyNames(), useMemberNames()];
  const [{ at, actor, meter, amount, reason }] = rows;
  const units = showAmount(meter, Math.abs(amount), (count) => {
    const [one, several] = METERS[meter].units;
    return `${showCount(count)} ${count === 1 ? one : several}`;
  });
  const quotas = rows.map(({ key, window }) => {
    const title = limitTitle({ meter, window });
    return key === null ? title : `${title} of key ${keyName(key)}`;
  });
  return (
    <li className="flex flex-col gap-0.5 px-3 py-2">
      <p className="flex flex-wrap items-baseline justify-between gap-x-3">
        <span className="font-medium">
          {amount < 0 ? '−' : '+'}
          {units}
        </span>
        <span className="text-xs text-muted">
          <When time={at} />
        </span>
      </p>
      <p className="break-words">{reason}</p>
      <p className="text-xs break-words text-muted">
        {[...new Set(quotas)].join(', ')} · by {describeActor(actor, memberName)}
      </p>
    </li>
  );
}
