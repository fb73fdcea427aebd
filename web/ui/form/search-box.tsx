import type { Ref } from 'react';
import { Icon } from '../icon.tsx';

/** A search field that filters while typing. */
export function SearchBox({
  label,
  value,
  onChange,
  input,
}: {
  label: string;
  value: string;
  onChange: (value: string) => void;
  input?: Ref<HTMLInputElement>;
}) {
  return (
    <span className="relative inline-flex w-56 max-w-full items-center">
      <Icon name="search" size={14} className="pointer-events-none absolute left-2.5 text-muted" />
      <input
        ref={input}
        type="search"
        aria-label={label}
        placeholder={label}
        value={value}
        onChange={({ target }) => onChange(target.value)}
        className={[
          'w-full rounded-md border border-line-strong bg-surface py-1.5 pr-2 pl-8 text-sm',
          'placeholder:text-muted',
        ].join(' ')}
      />
    </span>
  );
}
