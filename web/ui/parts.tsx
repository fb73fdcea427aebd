import type { ReactNode } from 'react';
import { Icon, type IconName } from './icon.tsx';

/** The parts that pages are put together from. */

/** A framed part of a page, with or without a head of its own. */
export function Card({
  title,
  actions,
  children,
  className = '',
  flush = false,
}: {
  title?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
  className?: string;
  /** Its content reaches its edges: tables. */ flush?: boolean;
}) {
  return (
    <section className={`rounded-xl border border-line bg-surface ${className}`}>
      {(title !== undefined || actions !== undefined) && (
        <div className="flex flex-wrap items-center justify-between gap-2 border-b border-line px-4 py-2.5">
          <h2>{title}</h2>
          {actions !== undefined && <div className="flex flex-wrap items-center gap-2">{actions}</div>}
        </div>
      )}
      <div className={flush ? '' : 'p-4'}>{children}</div>
    </section>
  );
}

const TONES = {
  plain: 'bg-sunken text-ink',
  good: 'bg-accent-soft text-accent',
  warn: 'bg-warn-soft text-warn',
  bad: 'bg-bad-soft text-bad',
} as const;
export type Tone = keyof typeof TONES;

/** A word about the state of something. The word says it; the colour only helps. */
export function Badge({ tone = 'plain', children }: { tone?: Tone; children: ReactNode }) {
  return (
    <span
      className={`inline-flex items-center gap-1 rounded-full px-2 text-xs leading-5 font-medium whitespace-nowrap ${TONES[tone]}`}
    >
      {children}
    </span>
  );
}

/** Where there is nothing yet: why, and what to do next. */
export function Empty({ icon, title, children }: { icon: IconName; title: string; children?: ReactNode }) {
  return (
    <div className="flex flex-col items-center gap-2 px-6 py-10 text-center">
      <Icon name={icon} size={24} className="text-muted" />
      <p className="font-medium">{title}</p>
      {children !== undefined && <div className="max-w-md text-muted">{children}</div>}
    </div>
  );
}

/** Something is about to be here, of about this height: nothing jumps when it comes. */
export function Waiting({ height = 'h-40', label = 'Loading' }: { height?: string; label?: string }) {
  return (
    <div
      role="status"
      aria-label={label}
      className={`grid w-full place-items-center rounded-xl bg-sunken ${height}`}
    >
      <span className="sr-only">{label}</span>
    </div>
  );
}

/** A figure with what it is. */
export function Figure({ label, value, note }: { label: ReactNode; value: ReactNode; note?: ReactNode }) {
  return (
    <div className="min-w-0 px-4 py-3">
      <p className="text-muted">{label}</p>
      <p className="truncate text-xl leading-7 font-semibold">{value}</p>
      <p className="min-h-5 truncate text-xs leading-5 text-muted">{note}</p>
    </div>
  );
}

/** Names and values in two columns, of one thing. What is null or false is left out. */
export function Facts({ facts }: { facts: readonly (readonly [label: string, value: ReactNode])[] }) {
  return (
    <dl className="grid grid-cols-[minmax(7rem,auto)_1fr] items-baseline gap-x-4 gap-y-1.5">
      {facts.map(
        ([label, value]) =>
          value !== null &&
          value !== false && (
            <div key={label} className="contents">
              <dt className="text-muted">{label}</dt>
              <dd className="min-w-0 break-words">{value}</dd>
            </div>
          ),
      )}
    </dl>
  );
}
