import { useForecasts, useLimits } from '../../lib/api/limits.ts';
import { QuotaBar } from '../../ui/quota-bar.tsx';

/** An account's own quotas with their forecasts; its keys' are on the Limits page. */
export function AccountQuotas({ account }: { account: string }) {
  const { data } = useLimits(account);
  const forecastOf = useForecasts(account);
  const quotas = (data?.data ?? []).filter(
    ({ key_name, window }) => key_name === null && window !== 'none' && window !== 'minute',
  );
  if (quotas.length === 0) return null;
  return (
    <section aria-label="Quotas" className="flex flex-col gap-4">
      <h3 className="font-semibold">Quotas</h3>
      {quotas.map((row) => (
        <QuotaBar key={`${row.meter} ${row.window}`} row={row} forecast={forecastOf(row)} isOwnerKnown />
      ))}
    </section>
  );
}
