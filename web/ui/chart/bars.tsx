import { type PointerEvent, type ReactNode, useState } from 'react';
import { labelled, roundTicks } from './scale.ts';

/** A series and its color as a CSS variable. */
export type Series = { name: string; colour: string };
export type Bar = {
  /** The start, as a unique key: titles may repeat at clock changes. */ atMs: number;
  /** The axis label. */ label: string;
  /** The full time range. */ title: string;
  /** One value per series, bottom to top. */ values: readonly number[];
  /** Figures to show instead of the values, which don't add up. */ readout?: readonly number[];
};

type BarsProps = {
  series: readonly Series[];
  bars: readonly Bar[];
  show: (value: number) => string;
  /** The accessible name. The figures are in the table view. */ label: string;
  /** Whether values are whole numbers. */ isWhole?: boolean;
};

const WIDTH = 1_000;
const HEIGHT = 100;

/** Stacked bars over time, with the figures of the hovered bar. The table view has the same figures. */
export function Bars({ series, bars, show, label, isWhole = true }: BarsProps) {
  const [at, setAt] = useState<number | null>(null);
  const sums = bars.map(({ values }) => values.reduce((sum, value) => sum + value, 0));
  const most = Math.max(0, ...sums);
  const ticks = roundTicks(isWhole ? Math.max(most, 4) : most);
  const top = ticks.at(-1) ?? 1;
  const step = WIDTH / Math.max(1, bars.length);
  const gap = Math.min(step * 0.25, 4);
  const point = ({ clientX, currentTarget }: PointerEvent<HTMLElement>): void => {
    const { left, width } = currentTarget.getBoundingClientRect();
    setAt(Math.min(bars.length - 1, Math.max(0, Math.floor(((clientX - left) / width) * bars.length))));
  };
  const pointed = at === null ? undefined : bars[at];
  return (
    <div>
      <Legend series={series} />
      <div role="img" aria-label={label} className="mt-3 flex gap-2 text-xs text-muted">
        <div className="relative h-44 w-12 shrink-0">
          {ticks.map((tick) => (
            <span
              key={tick}
              className="absolute right-0 translate-y-1/2 leading-none whitespace-nowrap"
              style={{ bottom: `${(tick / top) * 100}%` }}
            >
              {show(tick)}
            </span>
          ))}
        </div>
        <div className="min-w-0 flex-1">
          <div className="relative h-44" onPointerMove={point} onPointerLeave={() => setAt(null)}>
            <svg
              viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
              preserveAspectRatio="none"
              aria-hidden="true"
              className="absolute inset-0 size-full"
            >
              {ticks.map((tick) => (
                <line
                  key={tick}
                  x1={0}
                  x2={WIDTH}
                  y1={HEIGHT * (1 - tick / top)}
                  y2={HEIGHT * (1 - tick / top)}
                  stroke="var(--line)"
                  vectorEffect="non-scaling-stroke"
                />
              ))}
              {at !== null && <rect x={at * step} y={0} width={step} height={HEIGHT} fill="var(--sunken)" />}
              {bars.map((bar, index) => (
                <Stack
                  key={index}
                  bar={bar}
                  series={series}
                  x={index * step + gap / 2}
                  width={step - gap}
                  top={top}
                />
              ))}
            </svg>
            {at !== null && pointed && (
              <Tooltip bar={pointed} position={(at + 0.5) / bars.length} series={series} show={show} />
            )}
          </div>
          <TimeAxis labels={bars.map((bar) => bar.label)} />
        </div>
      </div>
    </div>
  );
}

function Stack({
  bar,
  series,
  x,
  width,
  top,
}: {
  bar: Bar;
  series: readonly Series[];
  x: number;
  width: number;
  top: number;
}) {
  const parts: ReactNode[] = [];
  let below = 0;
  for (const [index, value] of bar.values.entries()) {
    if (value <= 0) continue;
    const height = (value / top) * HEIGHT;
    below += height;
    // Small values stay visible.
    parts.push(
      <rect
        key={index}
        x={x}
        y={HEIGHT - below}
        width={width}
        height={Math.max(height, 0.6)}
        fill={series[index]?.colour}
      />,
    );
  }
  return parts;
}

/** Axis labels, fewer on narrow screens. */
function TimeAxis({ labels }: { labels: readonly string[] }) {
  const wide = new Set(labelled(labels.length, 8));
  const narrow = new Set(labelled(labels.length, 4));
  return (
    <div className="relative mt-1.5 h-4" aria-hidden="true">
      {labels.map(
        (label, index) =>
          (wide.has(index) || narrow.has(index)) && (
            <span
              key={index}
              className={[
                'absolute -translate-x-1/2 whitespace-nowrap',
                wide.has(index) ? '' : 'sm:hidden',
                narrow.has(index) ? '' : 'max-sm:hidden',
              ].join(' ')}
              style={{ left: `clamp(1rem, ${((index + 0.5) / labels.length) * 100}%, calc(100% - 1rem))` }}
            >
              {label}
            </span>
          ),
      )}
    </div>
  );
}

function Legend({ series }: { series: readonly Series[] }) {
  return (
    <ul className="flex min-h-5 flex-wrap items-center gap-x-4 gap-y-1 text-xs text-muted">
      {series.map(({ name, colour }) => (
        <li key={name} className="flex min-w-0 items-center gap-1.5">
          <span aria-hidden="true" className="size-2.5 shrink-0 rounded-sm" style={{ background: colour }} />
          <span className="max-w-40 truncate">{name}</span>
        </li>
      ))}
    </ul>
  );
}

/** The figures of one bar beside it, on the side with more room. It covers the chart and moves nothing. */
function Tooltip({
  bar,
  position,
  series,
  show,
}: {
  bar: Bar;
  /** Of the bar's middle, as a share of the chart's width. */ position: number;
  series: readonly Series[];
  show: (value: number) => string;
}) {
  const rows = series
    .map(({ name, colour }, index) => ({ name, colour, value: (bar.readout ?? bar.values)[index] ?? 0 }))
    .filter(({ value }) => value > 0)
    .toReversed();
  // A readout has figures that don't add up, such as percentiles.
  const total = bar.readout ? null : rows.reduce((sum, { value }) => sum + value, 0);
  const offset = `calc(${(position > 0.5 ? 1 - position : position) * 100}% + 0.75rem)`;
  return (
    <div
      aria-hidden="true"
      className={[
        'pointer-events-none absolute top-0 z-10 w-max max-w-[min(20rem,48%)] min-w-32 rounded-lg border',
        'border-line bg-surface px-3 py-2 text-xs shadow-lg',
      ].join(' ')}
      style={position > 0.5 ? { right: offset } : { left: offset }}
    >
      <p className="pb-1 text-muted">{bar.title}</p>
      {rows.length === 0 && <p className="text-ink">None</p>}
      {rows.map(({ name, colour, value }) => (
        <p key={name} className="flex items-center gap-1.5 text-ink">
          <span className="size-2.5 shrink-0 rounded-sm" style={{ background: colour }} />
          <span className="min-w-0 truncate">{name}</span>
          <span className="ml-auto pl-3 font-medium whitespace-nowrap">{show(value)}</span>
        </p>
      ))}
      {total !== null && rows.length > 1 && (
        <p className="mt-1 flex border-t border-line pt-1 text-ink">
          Total <span className="ml-auto pl-3 font-medium whitespace-nowrap">{show(total)}</span>
        </p>
      )}
    </div>
  );
}
