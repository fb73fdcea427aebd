import { Icon } from '../icon.tsx';

type Chip = { name: string; /** The display value. */ value: string; onRemove: () => void };

/** Active filters. Pressing one removes it. */
export function Chips({ chips, onClear }: { chips: readonly Chip[]; onClear: () => void }) {
  if (chips.length === 0) return null;
  return (
    <ul aria-label="Active filters" className="flex flex-wrap gap-1.5">
      {chips.map(({ name, value, onRemove }) => (
        <li key={name} className="max-w-full">
          <button
            type="button"
            onClick={onRemove}
            aria-label={`Remove filter ${name} ${value}`}
            className={[
              'flex max-w-full items-center gap-1.5 rounded-full bg-accent-soft px-2.5 py-0.5',
              'text-xs text-accent hover:line-through',
            ].join(' ')}
          >
            <span className="truncate">
              {name}: <b className="font-medium">{value}</b>
            </span>
            <Icon name="close" size={12} />
          </button>
        </li>
      ))}
      {chips.length > 1 && (
        <li>
          <button
            type="button"
            onClick={onClear}
            className="px-1 py-0.5 text-xs text-muted underline hover:text-ink"
          >
            Clear filters
          </button>
        </li>
      )}
    </ul>
  );
}
