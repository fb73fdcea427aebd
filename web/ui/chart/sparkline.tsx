/** A small line chart next to a figure. */
export function Sparkline({ values, className = '' }: { values: readonly number[]; className?: string }) {
  const most = Math.max(1, ...values);
  const points = values.map((value, index) => `${index},${(20 * (1 - value / most) + 1).toFixed(2)}`);
  const last = values.length - 1;
  return (
    <svg viewBox={`0 0 ${last} 22`} preserveAspectRatio="none" aria-hidden="true" className={className}>
      <path d={`M0,22L${points.join('L')}L${last},22Z`} fill="var(--accent-soft)" />
      <path
        d={`M${points.join('L')}`}
        fill="none"
        stroke="var(--accent)"
        strokeWidth={1.25}
        vectorEffect="non-scaling-stroke"
      />
    </svg>
  );
}
