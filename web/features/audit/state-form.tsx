import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { accountsQuery, keysQuery } from '../../lib/api/names.ts';
import { plansQuery } from '../../lib/api/queries.ts';
import { useZone } from '../../lib/hooks/preferences.ts';
import type { StateSearch } from '../../lib/search/state.ts';
import { inputTimeOf, timeOfInput } from '../../lib/format/input-time.ts';
import { Button } from '../../ui/button.tsx';
import { SelectField, TextField } from '../../ui/form/field.tsx';
import { NamedOptions } from '../../ui/form/options.tsx';

const KINDS = { account: 'Account', key: 'Key', plan: 'Plan' } as const;
type Kind = keyof typeof KINDS;
const WHENS = { now: 'Now', position: 'At a position', time: 'At a time' } as const;
type WhenKind = keyof typeof WHENS;

const kindOf = ({ key, plan }: StateSearch): Kind =>
  key !== undefined ? 'key' : plan !== undefined ? 'plan' : 'account';
const whenOf = ({ at, time }: StateSearch): WhenKind =>
  at !== undefined ? 'position' : time !== undefined ? 'time' : 'now';

/** Selects the resource and the point in time. */
export function StateForm({
  search,
  onShow,
}: {
  search: StateSearch;
  onShow: (search: Record<keyof StateSearch, string | number | undefined>) => void;
}) {
  const zone = useZone();
  const [kind, setKind] = useState(kindOf(search));
  const [when, setWhen] = useState(whenOf(search));
  const [subject, setSubject] = useState(search[kind] ?? '');
  const accounts = useQuery(accountsQuery).data ?? [];
  const keys = useQuery(keysQuery).data ?? [];
  const plans = useQuery(plansQuery).data?.map(({ name }) => ({ id: name, name })) ?? [];
  const rows = { account: accounts, key: keys, plan: plans }[kind];
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const data = new FormData(event.currentTarget);
    const text = (name: string): string | undefined => {
      const value = data.get(name);
      return typeof value === 'string' && value !== '' ? value : undefined;
    };
    const position = text('position');
    const time = text('time');
    onShow({
      account: undefined,
      key: undefined,
      plan: undefined,
      [kind]: subject,
      at: position === undefined ? undefined : Number(position),
      time: time === undefined ? undefined : (timeOfInput(time, zone) ?? undefined),
    });
  };
  return (
    <form
      onSubmit={submit}
      className={[
        'grid items-start gap-3 sm:grid-cols-2',
        'lg:grid-cols-[9rem_minmax(0,24rem)_10rem_minmax(0,14rem)_auto] lg:justify-start',
      ].join(' ')}
    >
      <SelectField
        label="Resource"
        value={kind}
        onChange={({ target }) => {
          setKind(target.value as Kind);
          setSubject('');
        }}
      >
        <NamedOptions rows={Object.entries(KINDS).map(([id, name]) => ({ id, name }))} chosen={kind} />
      </SelectField>
      <SelectField label="Name" required value={subject} onChange={({ target }) => setSubject(target.value)}>
        <option value="">Select…</option>
        <NamedOptions rows={rows} chosen={subject || undefined} />
      </SelectField>
      <SelectField
        label="Point in time"
        value={when}
        onChange={({ target }) => setWhen(target.value as WhenKind)}
      >
        <NamedOptions rows={Object.entries(WHENS).map(([id, name]) => ({ id, name }))} chosen={when} />
      </SelectField>
      {when === 'position' && (
        <TextField
          label="Position"
          name="position"
          type="number"
          min={0}
          step={1}
          required
          defaultValue={search.at}
        />
      )}
      {when === 'time' && (
        <TextField
          label={zone === 'utc' ? 'Time (UTC)' : 'Time (local)'}
          name="time"
          type="datetime-local"
          step={1}
          required
          defaultValue={search.time === undefined ? '' : inputTimeOf(search.time, zone)}
        />
      )}
      <Button type="submit" look="primary" className="self-end justify-self-start">
        View state
      </Button>
    </form>
  );
}
