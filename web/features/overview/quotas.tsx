import { Link } from '@tanstack/react-router';
import { useForecasts, useLimits } from '../../lib/api/limits.ts';
import { useAccountNames, useIsOverseer } from '../../lib/api/names.ts';
import { useMe } from '../../lib/api/session.ts';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { Card } from '../../ui/layout/parts.tsx';
import { QuotaBar } from '../../ui/quota-bar.tsx';

/** Quota usage. Rate and concurrency limits are on the Limits page. */
export function Quotas({ account: chosen }: { account: string | undefined }) {
  const { account: own } = useMe();
  const isOverseer = useIsOverseer();
  const nameOf = useAccountNames();
  const account = chosen ?? own.id;
  const query = useLimits(account);
  const forecastOf = useForecasts(account);
  return (
    <Card
      title={isOverseer ? `Quotas of account ${nameOf(account)}` : 'Quotas'}
      actions={
        <Link
          to="/limits"
          search={chosen === undefined ? {} : { account: chosen }}
          className="text-accent hover:underline"
        >
          All limits
        </Link>
      }
      flush
    >
      <div className="h-64 overflow-y-auto p-4" tabIndex={0} role="region" aria-label="Quotas">
        <Loaded query={query} title="Couldn’t load limits" height="h-56">
          {({ data: rows }) => {
            const quotas = rows.filter(({ window }) => window !== 'none' && window !== 'minute');
            if (quotas.length === 0)
              return (
                <p className="grid h-56 place-items-center text-center text-muted">
                  No quotas. Usage is tracked but not limited.
                </p>
              );
            return (
              <ul className="flex flex-col gap-5">
                {quotas.map((row) => (
                  <li key={`${row.subject} ${row.meter} ${row.window}`}>
                    <QuotaBar row={row} forecast={forecastOf(row)} />
                  </li>
                ))}
              </ul>
            );
          }}
        </Loaded>
      </div>
    </Card>
  );
}
