import { Select } from './field.tsx';
import { NamedOptions } from './options.tsx';

type NamedSelectProps = {
  /** For readers. */
  label: string;
  /** Where none is chosen: "All keys". */
  all: string;
  value: string | undefined;
  rows: readonly { id: string; name: string }[];
  onChoose: (id: string | undefined) => void;
  className: string;
};

/** Narrows a list to one account, key, model or member, or to none of them. */
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
