import { showPercent } from '../lib/format/show.ts';

/** A bar of used and reserved amounts. The figures are shown as text next to it. */
export function Meter({
  label,
  used,
  reserved,
  limit,
}: {
  label: string;
  used: number;
  reserved: number;
  limit: number;
}) {
  const share = (value: number): number =>
    limit <= 0 ? (value > 0 ? 100 : 0) : Math.min(100, (value / limit) * 100);
  const usedShare = share(used);
  const reservedShare = Math.min(100 - usedShare, share(reserved));
  const isFull = usedShare + reservedShare >= 100;
  return (
    <div
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={limit}
      aria-valuenow={Math.min(used, limit)}
      aria-valuetext={[
        `${showPercent(usedShare / 100, 0)} used`,
        `${showPercent(reservedShare / 100, 0)} reserved`,
      ].join(', ')}
      className="flex h-2 w-full overflow-hidden rounded-full bg-sunken"
    >
      <div className={isFull ? 'bg-warn' : 'bg-accent'} style={{ width: `${usedShare}%` }} />
      <div className="bg-reserved" style={{ width: `${reservedShare}%` }} />
    </div>
  );
}
