/**
 * How much of something is used, and how much of the rest is held by calls that run. The figures stand beside
 * it as text.
 */
export function Meter({
  label,
  used,
  held,
  limit,
}: {
  label: string;
  used: number;
  held: number;
  limit: number;
}) {
  const share = (value: number): number =>
    limit <= 0 ? (value > 0 ? 100 : 0) : Math.min(100, (value / limit) * 100);
  const usedShare = share(used);
  const heldShare = Math.min(100 - usedShare, share(held));
  const isFull = usedShare + heldShare >= 100;
  return (
    <div
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={limit}
      aria-valuenow={Math.min(used, limit)}
      aria-valuetext={`${Math.round(usedShare)} % used, ${Math.round(heldShare)} % held`}
      className="flex h-2 w-full overflow-hidden rounded-full bg-sunken"
    >
      <div className={isFull ? 'bg-warn' : 'bg-accent'} style={{ width: `${usedShare}%` }} />
      <div className="bg-held" style={{ width: `${heldShare}%` }} />
    </div>
  );
}
