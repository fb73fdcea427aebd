import { type FormEvent, useId, useRef } from 'react';
import { type FilterSearch, type Range, RANGES } from '../../lib/search/filter.ts';
import { useZone } from '../../lib/hooks/preferences.ts';
import { showTime, type Zone } from '../../lib/format/show.ts';
import { inputTimeOf, timeOfInput } from '../../lib/format/input-time.ts';
import { Button } from '../button.tsx';
import { TextField } from './field.tsx';
import { Icon } from '../icon.tsx';
import { Segment, SegmentGroup } from './segments.tsx';

type TimeSearch = Pick<FilterSearch, 'range' | 'from' | 'to'>;

const NAMES: Record<Range, string> = {
  '15m': '15 min',
  '1h': '1 h',
  '24h': '24 h',
  '7d': '7 days',
  '30d': '30 days',
};

type TimeRangeProps = {
  search: TimeSearch;
  /** The default range. */
  fallback: Range;
  /** Called with all three parameters. Undefined clears one. */
  onChange: (time: { range: Range | undefined; from: string | undefined; to: string | undefined }) => void;
  ranges?: readonly Range[];
  /** Whether a custom range can be selected. */
  hasSpan?: boolean;
};

/** A relative range, or a custom range in the selected zone. */
export function TimeRange({
  search,
  fallback,
  onChange,
  ranges = Object.keys(RANGES) as Range[],
  hasSpan = true,
}: TimeRangeProps) {
  const zone = useZone();
  const id = useId();
  const form = useRef<HTMLFormElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const isCustom = search.from !== undefined;
  const place = (): void => {
    const from = button.current?.getBoundingClientRect();
    const element = form.current;
    if (!from || !element) return;
    const topMax = window.innerHeight - element.offsetHeight - 8;
    element.style.top = `${Math.max(8, Math.min(from.bottom + 4, topMax))}px`;
    element.style.left = `${Math.max(8, Math.min(from.left, window.innerWidth - element.offsetWidth - 8))}px`;
  };
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const data = new FormData(event.currentTarget);
    const read = (name: string): string | undefined => {
      const text = data.get(name);
      return (typeof text === 'string' ? timeOfInput(text, zone) : null) ?? undefined;
    };
    event.currentTarget.hidePopover();
    onChange({ range: undefined, from: read('from'), to: read('to') });
  };
  const field = (name: 'from' | 'to') => ({
    name,
    type: 'datetime-local',
    step: 1,
    defaultValue: search[name] === undefined ? '' : inputTimeOf(search[name], zone),
  });
  return (
    <SegmentGroup aria-label="Time range">
      {ranges.map((range) => (
        <Segment
          key={range}
          aria-pressed={!isCustom && (search.range ?? fallback) === range}
          onClick={() =>
            onChange({ range: range === fallback ? undefined : range, from: undefined, to: undefined })
          }
        >
          {NAMES[range]}
        </Segment>
      ))}
      {hasSpan && (
        <>
          <Segment ref={button} popoverTarget={id} aria-pressed={isCustom}>
            <Icon name="clock" />
            {isCustom ? spanOf(search, zone) : 'Custom'}
          </Segment>
          {/* A new key resets the fields. */}
          <form
            key={`${search.from} ${search.to} ${zone}`}
            ref={form}
            id={id}
            popover="auto"
            onSubmit={submit}
            onToggle={(event) => event.newState === 'open' && place()}
            className="fixed m-0 w-64 rounded-lg border border-line bg-surface p-4 text-ink shadow-lg"
          >
            <div className="flex flex-col gap-3">
              <TextField label="From" required {...field('from')} />
              <TextField label="To" {...field('to')} />
              <p className="text-xs text-muted">
                {zone === 'utc' ? 'Times in UTC.' : 'Local time.'} Leave To empty for live updates.
              </p>
              <Button type="submit" look="primary">
                Apply
              </Button>
            </div>
          </form>
        </>
      )}
    </SegmentGroup>
  );
}

function spanOf({ from, to }: TimeSearch, zone: Zone): string {
  const show = (time: string): string => `${showTime(time, zone, 'date')}, ${showTime(time, zone, 'minute')}`;
  if (from === undefined) return '';
  return to === undefined ? `Since ${show(from)}` : `${show(from)} – ${show(to)}`;
}
