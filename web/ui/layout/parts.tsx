import type { ReactNode } from 'react';
import { Icon, type IconName } from '../icon.tsx';

/** Building blocks of pages. */

/** A framed section of a page, with an optional header. */
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
  /** Content without padding, for tables. */ flush?: boolean;
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
  success: 'bg-accent-soft text-accent',
  warn: 'bg-warn-soft text-warn',
  danger: 'bg-danger-soft text-danger',
} as const;
export type Tone = keyof typeof TONES;

/** A state label. The text carries the meaning; the color only supports it. */
export function Badge({ tone = 'plain', children }: { tone?: Tone; children: ReactNode }) {
  return (
    <span
      className={[
        'inline-flex items-center gap-1 rounded-full px-2 text-xs leading-5 font-medium',
        'whitespace-nowrap',
        TONES[tone],
      ].join(' ')}
    >
      {children}
    </span>
  );
}

/** Empty state: a title, the reason, and the next action. */
export function Empty({ icon, title, children }: { icon: IconName; title: string; children?: ReactNode }) {
  return (
    <div className="flex flex-col items-center gap-2 px-6 py-10 text-center">
      <Icon name={icon} size={24} className="text-muted" />
      <p className="font-medium">{title}</p>
      {children !== undefined && <div className="max-w-md text-muted">{children}</div>}
    </div>
  );
}

/** A placeholder of about the final height, so that the layout does not shift. */
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

/** A labelled number. */
export function Figure({ label, value, note }: { label: ReactNode; value: ReactNode; note?: ReactNode }) {
  return (
    <div className="min-w-0 px-4 py-3">
      <p className="text-muted">{label}</p>
      <p className="truncate text-xl leading-7 font-semibold">{value}</p>
      <p className="min-h-5 text-xs leading-5 text-muted">{note}</p>
    </div>
  );
}

/** A two-column description list. Entries that are null or false are skipped. */
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
