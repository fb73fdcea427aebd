import { useState } from 'react';
import type { Quota } from '#db/limits/limits.ts';
import { PER, type Per, PER_NAMES } from '#db/limits/subjects.ts';
import { METERS, QUOTA_METERS, type QuotaMeter } from '#db/limits/meters.ts';
import { capitalized } from '../../lib/format/show.ts';
import { Button, IconButton } from '../button.tsx';
import { SelectField } from '../form/field.tsx';
import { WordOptions } from '../form/options.tsx';
import { AmountField } from './amount-field.tsx';

const labelOf = (meter: QuotaMeter): string => {
  const { format, name } = METERS[meter];
  return `${capitalized(name)}${format === 'nanousd' ? ' (US dollars)' : ''}`;
};
const METER_LABELS = Object.fromEntries(QUOTA_METERS.map((meter) => [meter, labelOf(meter)]));
/** The order in which new rows suggest meters. */
const SUGGESTED = [...new Set<QuotaMeter>(['cost_nanousd', 'tokens', ...QUOTA_METERS])];
const WINDOWS: Record<Quota['window'], string> = {
  hour: 'Hour',
  day: 'Day',
  week: 'Week',
  month: 'Month',
  lifetime: 'Lifetime',
};
/** Lifetimes are for end users, sessions and tags. */
const { lifetime: _lifetime, ...CALENDAR_WINDOWS } = WINDOWS;
const ENFORCEMENTS: Record<Quota['enforcement'], string> = {
  soft: 'Soft limit (in-flight requests finish)',
  hard: 'Hard limit',
  observe: 'Observe (record rejections, enforce nothing)',
};

/** What a quota counts together: all requests, or those of each end user, session or tag. */
const COUNTS: Record<string, string> = {
  all: 'All requests together',
  ...Object.fromEntries(PER_NAMES.map((per) => [per, `Each ${PER[per].names[0]}`])),
};

type Row = Omit<Quota, 'limit'> & { limit: number | undefined; id: number };
const isWhole = (row: Row): row is Row & { limit: number } => row.limit !== undefined;
/** Lifetimes are for end users, sessions and tags only. */
const perChange = ({ window }: Row, value: string): Partial<Row> => {
  const per = value === 'all' ? undefined : (value as Per);
  return { per, ...(per === undefined && window === 'lifetime' ? { window: 'month' as const } : {}) };
};

/** Defaults of a new row: the first unused combination. */
function nextOf(rows: readonly Row[]): Omit<Row, 'id'> | null {
  const pairs = SUGGESTED.flatMap((meter) =>
    (['month', 'day', 'hour', 'week'] as const).map((window) => ({ meter, window })),
  );
  const free = pairs.find(
    (pair) =>
      !rows.some(
        ({ meter, window, per }) => per === undefined && meter === pair.meter && window === pair.window,
      ),
  );
  return free ? { ...free, limit: undefined, enforcement: 'soft' } : null;
}

/** Quotas per UTC calendar window. */
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
        .map(({ id: _id, per, ...quota }) => (per === undefined ? quota : { ...quota, per })),
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
            label="Metric"
            value={row.meter}
            onChange={({ target }) =>
              change(row.id, { meter: target.value as Quota['meter'], limit: undefined })
            }
          >
            <WordOptions words={METER_LABELS} />
          </SelectField>
          <AmountField
            key={row.meter}
            label="Limit"
            unit={METERS[row.meter].format === 'nanousd' ? 'nanousd' : 'count'}
            value={row.limit}
            onChange={(limit) => change(row.id, { limit })}
            required
            placeholder={METERS[row.meter].format === 'nanousd' ? '25.00' : '100k'}
          />
          <SelectField
            label="Per"
            value={row.window}
            onChange={({ target }) => change(row.id, { window: target.value as Quota['window'] })}
          >
            <WordOptions words={row.per === undefined ? CALENDAR_WINDOWS : WINDOWS} />
          </SelectField>
          <div className="flex items-end justify-end">
            <IconButton
              icon="close"
              label="Remove quota"
              onClick={() => set(rows.filter(({ id }) => id !== row.id))}
            />
          </div>
          <div className="col-span-full grid gap-2 sm:grid-cols-2">
            <SelectField
              label="Counts"
              value={row.per ?? 'all'}
              onChange={({ target }) => change(row.id, perChange(row, target.value))}
              hint={
                row.per === undefined ? undefined : `Each ${PER[row.per].names[0]} has this quota of its own.`
              }
            >
              <WordOptions words={COUNTS} />
            </SelectField>
            <SelectField
              label="When exhausted"
              value={row.enforcement}
              onChange={({ target }) => change(row.id, { enforcement: target.value as Quota['enforcement'] })}
              hint={
                row.enforcement === 'hard'
                  ? 'Each request reserves its maximum, and replies are capped at the remaining quota.'
                  : 'Running requests finish, so usage may exceed the limit.'
              }
            >
              <WordOptions words={ENFORCEMENTS} />
            </SelectField>
          </div>
        </div>
      ))}
      {error != null && (
        <p role="alert" className="text-xs text-danger">
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
          {rows.length === 0 ? 'Add quota' : 'Add another quota'}
        </Button>
      </div>
    </fieldset>
  );
}
