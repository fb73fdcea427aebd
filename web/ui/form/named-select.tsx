import { Select } from './field.tsx';
import { NamedOptions } from './options.tsx';

type NamedSelectProps = {
  /** The accessible name. */
  label: string;
  /** The option for no filter, such as "All keys". */
  all: string;
  value: string | undefined;
  rows: readonly { id: string; name: string }[];
  onChoose: (id: string | undefined) => void;
  className: string;
};

/** A filter by account, key, model or member. */
export function NamedSelect({ label, all, value, rows, onChoose, className }: NamedSelectProps) {
  return (
    <Select
      aria-label={label}
      className={className}
      value={value ?? ''}
      onChange={({ target }) => onChoose(target.value || undefined)}
    >
      <option value="">{all}</option>
      <NamedOptions rows={rows} chosen={value} />
    </Select>
  );
}
