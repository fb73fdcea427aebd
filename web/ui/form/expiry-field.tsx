import { useZone } from '../../lib/hooks/preferences.ts';
import { showTime, type Zone } from '../../lib/format/show.ts';
import { inputTimeOf, timeOfInput } from '../../lib/format/input-time.ts';
import { useNow } from '../../lib/hooks/use-now.ts';
import { SelectField, TextField } from './field.tsx';
import { When } from '../when.tsx';

const DAY_MS = 86_400_000;

/** `keep`: unchanged; a number: days from now; `date`: the value of the date field. */
export type ExpiryChoice = { choice: 'keep' | 'never' | '7' | '30' | '90' | 'date'; date: string };

/** @returns ISO 8601; null for never; undefined for unchanged. */
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
  /** The expiry of an existing key. */ current?: string | null;
  error?: string | null;
};

/** Selects when a key expires. */
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
          <option value="keep">Keep: {current === null ? 'never' : showTime(current, zone, 'full')}</option>
        )}
        {current !== null && <option value="never">Never</option>}
        <option value="7">In 7 days</option>
        <option value="30">In 30 days</option>
        <option value="90">In 90 days</option>
        <option value="date">On a date</option>
      </SelectField>
      {choice === 'date' && (
        <TextField
          label={zone === 'utc' ? 'Date and time (UTC)' : 'Date and time'}
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
