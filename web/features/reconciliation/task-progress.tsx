import { showCount, showCounted } from '../../lib/format/show.ts';
import { Button } from '../../ui/button.tsx';

/** The progress of a task, with a cancel button. */
export function TaskProgress({
  label,
  unit,
  done,
  of,
  onCancel,
}: {
  label: string;
  /** The counted unit: a word that takes an s. */
  unit: string;
  done: number;
  of: number;
  onCancel: () => void;
}) {
  const share = of === 0 ? 0 : Math.min(1, done / of);
  return (
    <div className="flex flex-wrap items-center gap-3" role="status">
      <div className="min-w-40 flex-1">
        <div
          role="progressbar"
          aria-label={label}
          aria-valuemin={0}
          aria-valuemax={100}
          aria-valuenow={Math.floor(share * 100)}
          className="h-2 overflow-hidden rounded-full bg-sunken"
        >
          <div className="h-full bg-accent" style={{ width: `${share * 100}%` }} />
        </div>
        <p className="mt-1 text-xs text-muted">
          {of === 0 ? `${label}…` : `${label}: ${showCount(Math.min(done, of))} of ${showCounted(of, unit)}`}
        </p>
      </div>
      <Button onClick={onCancel}>Cancel</Button>
    </div>
  );
}
