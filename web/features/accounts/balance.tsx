import { useQuery } from '@tanstack/react-query';
import { limitsQuery } from '../../lib/api/limits.ts';
import { describeActor, useMemberNames } from '../../lib/api/names.ts';
import { isBalance } from '../../lib/format/limits.ts';
import { showCost } from '../../lib/format/show.ts';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { When } from '../../ui/when.tsx';
import { topUpsQuery } from './account-queries.ts';

/** The prepaid balance of an account, and its newest top-ups. */
export function Balance({ account, prepaid }: { account: string; prepaid: boolean }) {
  const query = useQuery(topUpsQuery(account));
  const { data: limits } = useQuery({ ...limitsQuery(account), enabled: prepaid });
  const memberName = useMemberNames();
  const row = limits?.data.find((each) => isBalance(each));
  return (
    <section aria-labelledby="balance">
      <h3 id="balance" className="mb-2 font-semibold">
        Prepaid balance
      </h3>
      {prepaid ? (
        row && (
          <p className="mb-2">
            <span className="font-medium">{showCost(row.remaining)}</span>{' '}
            <span className="text-muted">
              left of {showCost(row.limit)}
              {row.reserved > 0 && `, ${showCost(row.reserved)} reserved`}
            </span>
          </p>
        )
      ) : (
        <p className="mb-2 text-muted">The account isn’t prepaid. Its top-ups limit no requests.</p>
      )}
      <Loaded query={query} title="Couldn’t load top-ups" height="h-10">
        {({ data }) =>
          data.length === 0 ? (
            <p className="text-muted">No top-ups.</p>
          ) : (
            <ul className="flex flex-col divide-y divide-line rounded-lg border border-line">
              {data.map(({ position, at, actor, amount_nanousd: amount, reference }) => (
                <li key={position} className="flex flex-col gap-0.5 px-3 py-2">
                  <p className="flex flex-wrap items-baseline justify-between gap-x-3">
                    <span className="font-medium">+{showCost(amount)}</span>
                    <span className="text-xs text-muted">
                      <When time={at} />
                    </span>
                  </p>
                  <p className="break-words">{reference}</p>
                  <p className="text-xs break-words text-muted">by {describeActor(actor, memberName)}</p>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </section>
  );
}
