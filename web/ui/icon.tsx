/** Icons on a 16 px grid, for text of 13 px. */
const PATHS = {
  overview: 'M1.5 9h3l2-6 3.5 10 2-4h2.5',
  rocket: 'M8 14V9m0-7c2.5 2 3.5 4.5 3 7H5c-.5-2.5.5-5 3-7ZM5 9l-2 3h2.5M11 9l2 3h-2.5',
  list: 'M2.5 4h2m3 0h6m-11 4h2m3 0h6m-11 4h2m3 0h6',
  send: 'M14 2 2 6.5l5 2.5 2.5 5ZM7 9l3-3',
  invoice: 'M3.5 1.5h9v13l-2.2-1.5L8 14.5 5.7 13l-2.2 1.5ZM6 5h4M6 8h4',
  bars: 'M3 13.5V8m5 5.5V2.5m5 11v-8',
  key: 'M10 6a3 3 0 1 0-2.6 3L9 10.5h2V12h2v-2l-3.2-3.2',
  chat: 'M2.5 3.5h11v7h-6l-3 2.5v-2.5h-2Z',
  gauge: 'M2.5 12a6 6 0 1 1 11 0M8 9.5l2.5-3',
  people: [
    'M6 7.5a2.3 2.3 0 1 0 0-4.6 2.3 2.3 0 0 0 0 4.6Zm-4 6c0-2.5 1.8-4 4-4s4 1.5 4 4',
    'm.5-10.3a2.3 2.3 0 0 1 0 4.2m1 2.3c1.6.5 2.5 1.9 2.5 3.8',
  ].join(''),
  layers: 'M8 2 2 5.2l6 3.2 6-3.2ZM2.5 8.5 8 11.5l5.5-3M2.5 11.5l5.5 3 5.5-3',
  fork: 'M1.5 8h3.5c4 0 2.5-4.5 6.5-4.5h2.5M5 8c4 0 2.5 4.5 6.5 4.5h2.5M12 1.5l2 2-2 2m0 5 2 2-2 2',
  tag: 'M2.5 2.5h5l6 6-5 5-6-6ZM5.5 5.5v.01',
  alert: 'M4 11V7a4 4 0 0 1 8 0v4l1.2 1.5H2.8ZM6.7 14.2h2.6',
  pulse: 'M8 14.5s-6-3.3-6-8A3.3 3.3 0 0 1 8 4.7a3.3 3.3 0 0 1 6 1.8c0 4.7-6 8-6 8Z',
  scroll: 'M4.5 2.5h8v11h-8a2 2 0 0 1 0-4h8M7 5.5h3',
  door: 'M9.5 2.5h-6v11h6M7 8h7m-2.5-2.5L14 8l-2.5 2.5',
  cog: [
    'M8 10.2a2.2 2.2 0 1 0 0-4.4 2.2 2.2 0 0 0 0 4.4Zm0-8.7v2m0 9v2M1.5 8h2m9 0h2',
    'M3.4 3.4l1.4 1.4m6.4 6.4 1.4 1.4m0-9.2-1.4 1.4m-6.4 6.4-1.4 1.4',
  ].join(''),
  sun: [
    'M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6Zm0-9.5V3m0 10v1.5M1.5 8H3m10 0h1.5M3.4 3.4l1 1',
    'm7.2 7.2 1 1m0-9.2-1 1m-7.2 7.2-1 1',
  ].join(''),
  moon: 'M13.5 9.5A6 6 0 0 1 6.5 2.5a6 6 0 1 0 7 7Z',
  menu: 'M2 4h12M2 8h12M2 12h12',
  close: 'M3.5 3.5l9 9m0-9-9 9',
  scale: 'M8 2v12m-3 0h6M3 4h10M3 4 1 9a2.2 2.2 0 0 0 4 0Zm10 0-2 5a2.2 2.2 0 0 0 4 0Z',
  copy: 'M6 6h7.5v7.5H6ZM3.5 10h-1V2.5H10v1',
  check: 'm2.5 8.5 3.5 3.5 7.5-8',
  warning: 'M8 2 1.5 13.5h13ZM8 6.5v3.2m0 1.8v.01',
  download: 'M8 2v8m-3-3 3 3 3-3M2.5 13.5h11',
  search: 'M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9Zm3.3-1.2 3.7 3.7',
  filter: 'M2 3h12L9.5 8.5v5l-3-1.5V8.5Z',
  pause: 'M5.5 3v10m5-10v10',
  play: 'M4.5 3v10l8-5Z',
  plus: 'M8 2.5v11M2.5 8h11',
  more: [
    'M3 8a.5.5 0 1 0 1 0 .5.5 0 1 0-1 0m4.5 0a.5.5 0 1 0 1 0 .5.5 0 1 0-1 0',
    'M12 8a.5.5 0 1 0 1 0 .5.5 0 1 0-1 0',
  ].join(''),
  chevron: 'm4 6 4 4 4-4',
  arrow: 'M3 8h10m-4-4 4 4-4 4',
  shield: 'M8 1.8 13.5 4v4c0 3.5-2.5 5.5-5.5 6.5C5 13.5 2.5 11.5 2.5 8V4Z',
  refresh: 'M13.5 8a5.5 5.5 0 1 1-1.7-4M12 1.5V4.2H9.3',
  clock: 'M8 14a6 6 0 1 0 0-12 6 6 0 0 0 0 12ZM8 4.8V8l2.2 1.5',
} as const;

export type IconName = keyof typeof PATHS;

/** A decorative icon, hidden from screen readers. */
export function Icon({
  name,
  size = 16,
  className = '',
}: {
  name: IconName;
  size?: number;
  className?: string;
}) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth={1.4}
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
      className={`shrink-0 ${className}`}
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
