import { Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import type { EventRow } from '#server/contract/events.ts';
import { isOtherYear, showCount, showTime, type Zone } from '../../lib/format/show.ts';
import { describeActor } from '../../lib/api/names.ts';
import { Icon } from '../../ui/icon.tsx';
import { type Names, describeEvent } from './event-words.ts';

/** One event: a one-line description that expands to all fields. */
export function EventLine({
  event,
  names,
  isTarget,
}: {
  event: EventRow;
  names: Names;
  /** The event that the URL points to. */ isTarget: boolean;
}) {
  const [isOpen, setOpen] = useState(isTarget);
  const actor = describeActor(event.actor, names.member);
  return (
    <li className="border-b border-line last:border-b-0">
      <details open={isOpen} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
        <summary
          className={[
            'relative flex list-none gap-x-3 px-4 max-lg:pr-10 py-2 hover:bg-sunken',
            'focus-visible:outline-offset-[-2px] max-lg:flex-wrap lg:grid',
            'lg:grid-cols-[5rem_9.5rem_11rem_minmax(0,1fr)_minmax(0,9rem)_1rem] lg:items-baseline',
            '[&::-webkit-details-marker]:hidden',
          ].join(' ')}
        >
          <span className={isTarget ? 'font-semibold text-accent' : 'text-muted'}>
            {showCount(event.position)}
          </span>
          <time dateTime={event.at} title={event.at} className="whitespace-nowrap text-muted max-lg:ml-auto">
            {showDay(event.at, names.zone)}
          </time>
          <span className="min-w-0 max-lg:w-full">
            <code className="font-mono text-xs">{event.type}</code>
          </span>
          <span className={`min-w-0 break-words max-lg:w-full ${actor === '' ? 'lg:col-span-2' : ''}`}>
            {describeEvent(event, names)}
          </span>
          {actor !== '' && (
            <span className="min-w-0 truncate text-muted max-lg:text-xs" title={actor}>
              <span className="lg:sr-only">by </span>
              {actor}
            </span>
          )}
          <Icon
            name="chevron"
            size={14}
            className={[
              'self-center text-muted transition-transform max-lg:absolute max-lg:top-3',
              'max-lg:right-4',
              isOpen ? 'rotate-180' : '',
            ].join(' ')}
          />
        </summary>
        {isOpen && <Fields event={event} />}
      </details>
    </li>
  );
}

/** To the second, with the year unless it is the current one. */
const showDay = (at: string, zone: Zone): string =>
  isOtherYear(at, zone)
    ? `${showTime(at, zone, 'date')}, ${showTime(at, zone, 'time')}`
    : showTime(at, zone, 'second');

function Fields({
  event: { position, at, type, stream, version, instance, actor, fields },
}: {
  event: EventRow;
}) {
  const rows: [name: string, value: unknown][] = [
    ['position', position],
    ['at', at],
    ['type', type],
    ...(stream === null
      ? []
      : [['stream', version === null ? stream : `${stream}@${version}`] as [string, unknown]]),
    ['instance', instance],
    ...(actor === null ? [] : [['actor', actor] as [string, unknown]]),
    ...Object.entries(fields),
  ];
  return (
    <div
      className="overflow-x-auto border-t border-line bg-sunken px-4 py-3"
      tabIndex={0}
      role="region"
      aria-label={`Fields of the event at position ${position}`}
    >
      <table className="border-collapse">
        <thead className="sr-only">
          <tr>
            <th scope="col">Field</th>
            <th scope="col">Value</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(([name, value]) => (
            <tr key={name} className="align-top">
              <th
                scope="row"
                className="py-1 pr-6 text-left font-mono text-xs font-normal whitespace-nowrap text-muted"
              >
                {name}
              </th>
              <td className="py-1 font-mono text-xs">{linked(name, value)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const LINK = 'underline hover:text-accent';

/** A field's value, linked to the resource that it names. */
function linked(name: string, value: unknown): ReactNode {
  if (typeof value === 'object' && value !== null)
    return <pre className="whitespace-pre-wrap">{JSON.stringify(value, null, 2)}</pre>;
  const text = String(value);
  if (name === 'request')
    return (
      <Link to="/requests" search={{ request: text }} className={LINK}>
        {text}
      </Link>
    );
  if (name === 'key' || name === 'account' || name === 'member')
    return (
      <Link to="/audit" search={{ [name]: text }} className={LINK}>
        {text}
      </Link>
    );
  return text;
}
