import { useZone } from '../../lib/preferences.ts';
import type { Zone } from '../../lib/show.ts';
import { inputTimeOf, timeOfInput } from '../../lib/zone-time.ts';
import { useNow } from '../../lib/use-now.ts';
import { SelectField, TextField } from '../../ui/field.tsx';
import { When } from '../../ui/when.tsx';

const DAY_MS = 86_400_000;

/** `keep`: as it is; a number: so many days from now; `date`: what the second field says. */
export type ExpiryChoice = { choice: 'keep' | 'never' | '7' | '30' | '90' | 'date'; date: string };

/** @returns ISO 8601; null: never; undefined: as it is. */
export function expiryOf(
  { choice, date }: ExpiryChoice,
  zone: Zone,
  nowMs: number,
): string | null | undefined {
  if (choice === 'keep') return undefined;
  if (choice === 'never') return null;
  return choice === 'date'
    ? timeOfInput(date, zone)
    : new Date(nowMs + Number(choice) * DAY_MS).toISOString();
}

type ExpiryFieldProps = {
  value: ExpiryChoice;
  onChange: (value: ExpiryChoice) => void;
  /** Of a key that is there already. */ current?: string | null;
  error?: string | null;
};

/** When a key ends by itself. */
export function ExpiryField({ value, onChange, current, error }: ExpiryFieldProps) {
  const zone = useZone();
  const now = useNow(60_000);
  const { choice } = value;
  const expiry = expiryOf(value, zone, now);
  return (
    <div className="grid items-start gap-3 sm:grid-cols-2">
      <SelectField
        label="Expires"
        value={choice}
        onChange={({ target }) => onChange({ ...value, choice: target.value as ExpiryChoice['choice'] })}
        hint={choice !== 'date' && typeof expiry === 'string' ? <When time={expiry} /> : undefined}
        error={choice === 'date' ? undefined : error}
      >
        {current !== undefined && (
          <option value="keep">
            As it is: {current === null ? 'never' : inputTimeOf(current, zone).replace('T', ' ').slice(0, 16)}
          </option>
        )}
        {current !== null && <option value="never">Never</option>}
        <option value="7">In 7 days</option>
        <option value="30">In 30 days</option>
        <option value="90">In 90 days</option>
        <option value="date">On a date</option>
      </SelectField>
      {choice === 'date' && (
        <TextField
          label={zone === 'utc' ? 'On, in UTC' : 'On'}
          type="datetime-local"
          required
          value={value.date}
          min={inputTimeOf(now + 60_000, zone).slice(0, 16)}
          onChange={({ target }) => onChange({ ...value, date: target.value })}
          error={error}
        />
      )}
    </div>
  );
}
