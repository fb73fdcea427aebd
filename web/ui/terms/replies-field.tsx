import { Checkbox, SelectField } from '../form/field.tsx';

const LABEL = 'Keep replies for repeated requests';
const HINT = 'For 24 hours, encrypted. A retry with the same Idempotency-Key gets the reply again.';

/** Whether replies to requests with an idempotency key are kept. */
export function RepliesField({
  value,
  onChange,
  isOverride,
}: {
  value: boolean | undefined;
  onChange: (value: boolean | undefined) => void;
  isOverride: boolean;
}) {
  if (!isOverride)
    return (
      <Checkbox
        label={LABEL}
        hint={HINT}
        checked={value === true}
        onChange={({ target }) => onChange(target.checked ? true : undefined)}
      />
    );
  return (
    <SelectField
      label={LABEL}
      hint={HINT}
      value={value === undefined ? '' : String(value)}
      onChange={({ target }) => onChange(target.value === '' ? undefined : target.value === 'true')}
    >
      <option value="">Plan default</option>
      <option value="true">Keep for 24 hours</option>
      <option value="false">Don’t keep</option>
    </SelectField>
  );
}
