import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { describeActor, useMemberNames } from '../../lib/api/names.ts';
import { changesOf } from '../../lib/format/corrections.ts';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { When } from '../../ui/when.tsx';
import { correctionsQuery } from './account-queries.ts';

/** The newest corrections of an account's requests. */
export function Corrections({ account }: { account: string }) {
  const query = useQuery(correctionsQuery(account));
  const memberName = useMemberNames();
  return (
    <section aria-labelledby="corrections">
      <h3 id="corrections" className="mb-2 font-semibold">
        Corrected requests
      </h3>
      <Loaded query={query} title="Couldn’t load corrections" height="h-10">
        {({ data, has_more: hasMore }) =>
          data.length === 0 ? (
            <p className="text-muted">None.</p>
          ) : (
            <>
              <ul className="flex flex-col divide-y divide-line rounded-lg border border-line">
                {data.map((each) => (
                  <li key={each.position} className="flex flex-col gap-0.5 px-3 py-2">
                    <p className="flex flex-wrap items-baseline justify-between gap-x-3">
                      <span className="font-medium">{changesOf(each).join(', ')}</span>
                      <span className="text-xs text-muted">
                        <When time={each.at} />
                      </span>
                    </p>
                    <p className="break-words">{each.reason}</p>
                    <p className="text-xs break-words text-muted">
                      <span className="break-all">{each.reference}</span> · by{' '}
                      {describeActor(each.adjusted_by, memberName)} ·{' '}
                      <Link
                        to="/requests"
                        search={{ request: each.request }}
                        className="underline hover:text-accent"
                      >
                        View request
                      </Link>
                    </p>
                  </li>
                ))}
              </ul>
              {hasMore && <p className="mt-2 text-muted">The newest {data.length} are shown.</p>}
            </>
          )
        }
      </Loaded>
    </section>
  );
}
