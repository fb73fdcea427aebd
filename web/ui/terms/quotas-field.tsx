import { useState } from 'react';
import type { Quota } from '#db/limits/limits.ts';
import { METERS, QUOTA_METERS, type QuotaMeter } from '#db/limits/meters.ts';
import { WINDOW_WORDS } from '../../lib/limit-words.ts';
import { Button, IconButton } from '../button.tsx';
import { SelectField } from '../field.tsx';
import { WordOptions } from '../options.tsx';
import { AmountField } from './amount-field.tsx';

const labelOf = (meter: QuotaMeter): string => {
  const { format, name } = METERS[meter];
  return format === 'microusd' ? 'US dollars' : name.charAt(0).toUpperCase() + name.slice(1);
};
const METER_LABELS = Object.fromEntries(QUOTA_METERS.map((meter) => [meter, labelOf(meter)]));
/** In the order in which new rows propose them. */
const PROPOSED = [...new Set<QuotaMeter>(['cost_microusd', 'tokens', ...QUOTA_METERS])];
const { hour, day, week, month } = WINDOW_WORDS;
const WINDOWS: Record<Quota['window'], string> = { hour, day, week, month };
const ENFORCEMENTS: Record<Quota['enforcement'], string> = {
  soft: 'Running replies may end',
  hard: 'Never a unit above',
};

type Row = Omit<Quota, 'limit'> & { limit: number | undefined; id: number };
const isWhole = (row: Row): row is Row & { limit: number } => row.limit !== undefined;
/** What a new row begins with: the first that is not there yet, so that no two are alike. */
function nextOf(rows: readonly Row[]): Omit<Row, 'id'> | null {
  const pairs = PROPOSED.flatMap((meter) =>
    (['month', 'day', 'hour', 'week'] as const).map((window) => ({ meter, window })),
  );
  const free = pairs.find(
    (pair) => !rows.some(({ meter, window }) => meter === pair.meter && window === pair.window),
  );
  return free ? { ...free, limit: undefined, enforcement: 'soft' } : null;
}

/** The quotas of terms: how much of what, in which window of the calendar in UTC. */
export function QuotasField({
  value,
  onChange,
  error,
}: {
  value: readonly Quota[];
  onChange: (value: Quota[]) => void;
  error?: string | null;
}) {
  const [rows, setRows] = useState<readonly Row[]>(() => value.map((quota, id) => ({ ...quota, id })));
  const set = (next: readonly Row[]): void => {
    setRows(next);
    onChange(
      next
        .filter(isWhole)
        .map(({ meter, window, limit, enforcement }) => ({ meter, window, limit, enforcement })),
    );
  };
  const change = (id: number, to: Partial<Row>): void =>
    set(rows.map((row) => (row.id === id ? { ...row, ...to } : row)));
  const next = nextOf(rows);
  return (
    <fieldset className="flex min-w-0 flex-col gap-2">
      <legend className="mb-1 font-medium">Quotas</legend>
      {rows.map((row) => (
        <div
          key={row.id}
          className="grid grid-cols-2 gap-2 rounded-lg border border-line p-3 sm:grid-cols-[1fr_1fr_1fr_auto]"
        >
          <SelectField
            label="Of"
            value={row.meter}
            onChange={({ target }) =>
              change(row.id, { meter: target.value as Quota['meter'], limit: undefined })
            }
          >
            <WordOptions words={METER_LABELS} />
          </SelectField>
          <AmountField
            key={row.meter}
            label="At most"
            unit={METERS[row.meter].format === 'microusd' ? 'microusd' : 'count'}
            value={row.limit}
            onChange={(limit) => change(row.id, { limit })}
            required
            placeholder={METERS[row.meter].format === 'microusd' ? '25.00' : '100k'}
          />
          <SelectField
            label="In"
            value={row.window}
            onChange={({ target }) => change(row.id, { window: target.value as Quota['window'] })}
          >
            <WordOptions words={WINDOWS} />
          </SelectField>
          <div className="flex items-end justify-end">
            <IconButton
              icon="close"
              label="Remove this quota"
              onClick={() => set(rows.filter(({ id }) => id !== row.id))}
            />
          </div>
          <div className="col-span-full">
            <SelectField
              label="When it is spent"
              value={row.enforcement}
              onChange={({ target }) => change(row.id, { enforcement: target.value as Quota['enforcement'] })}
              hint={
                row.enforcement === 'hard'
                  ? 'A call holds the most that it can use, and its reply is asked to stop where the quota ends.'
                  : 'A call that was let in runs to its end, and may so overdraw the quota a little.'
              }
            >
              <WordOptions words={ENFORCEMENTS} />
            </SelectField>
          </div>
        </div>
      ))}
      {error != null && (
        <p role="alert" className="text-xs text-bad">
          {error}
        </p>
      )}
      <div>
        <Button
          icon="plus"
          disabled={next === null}
          onClick={() =>
            next && set([...rows, { ...next, id: Math.max(-1, ...rows.map(({ id }) => id)) + 1 }])
          }
        >
          {rows.length === 0 ? 'Add a quota' : 'Add another quota'}
        </Button>
      </div>
    </fieldset>
  );
}
