import { growsInUse } from '#db/schema/retention.ts';
import type { Finding } from '../chaos/verdict.ts';
import type { Probed } from './probe.ts';
import type { Sample } from './samples.ts';
import { blocks, isGrowing, median, type Point, slopeOf } from './slope.ts';

/** A series with its slope: for processes an hour, for tables a call. */
export type Judged = {
  name: string;
  unit: string;
  level: number;
  max: number;
  slope: number | null;
  low: number | null;
  high: number | null;
  grows: boolean;
};

const HOUR_MS = 3_600_000;
/** Blocks of a series: enough for a narrow interval, long enough to be nearly independent. */
const BLOCKS = 40;

/** Growth in an hour that is tolerated, as a part of the level and at least so much. */
const TOLERATED: Record<string, { share: number; floor: number }> = {
  rss: { share: 0.05, floor: 8 },
  heap: { share: 0.05, floor: 4 },
  descriptors: { share: 0.05, floor: 4 },
  sockets: { share: 0.05, floor: 4 },
  'upstream connections': { share: 0.05, floor: 4 },
  'database sessions': { share: 0.05, floor: 2 },
  // Reported only: whatever else the machine runs stalls the loop too.
  'event loop stall': { share: Infinity, floor: Infinity },
};

/** Growth of a bounded table per call: a leaked row has at least this many bytes. */
const LEAKED_ROW_BYTES = 16;
/** A growing table may need no more bytes for a call later than earlier, but for this factor. */
const LATER_FACTOR = 1.5;
/** Below this much growth in a half, pages and not rows decide. */
const HALF_BYTES_MIN = 512 * 1024;

/** Judges all samples after the warm-up. */
export function judge(samples: readonly Sample[], probed: readonly Probed[]): Judged[] {
  const begin = samples[0]?.at ?? 0;
  const hours = (at: number): number => (at - begin) / HOUR_MS;
  const series = (name: string, unit: string, pick: (sample: Sample) => number): Judged =>
    judgeSeries(
      name,
      unit,
      samples.map((sample) => ({ x: hours(sample.at), y: pick(sample) })),
    );
  return [
    series('rss', 'MB', ({ rssMb }) => rssMb),
    judgeSeries(
      'heap',
      'MB',
      probed.map(({ at, heapMb }) => ({ x: hours(at), y: heapMb })),
    ),
    series('descriptors', '', ({ descriptors }) => descriptors),
    series('sockets', '', ({ sockets }) => sockets),
    series('upstream connections', '', ({ upstreamConnections }) => upstreamConnections),
    series('database sessions', '', ({ sessions }) => sessions),
    judgeSeries(
      'event loop stall',
      'ms',
      probed.map(({ at, stallMs }) => ({ x: hours(at), y: stallMs })),
    ),
    ...judgeTables(samples),
  ];
}

function judgeSeries(name: string, unit: string, points: readonly Point[]): Judged {
  const span = (points.at(-1)?.x ?? 0) - (points[0]?.x ?? 0);
  const found = slopeOf(blocks(points, span / BLOCKS));
  const { slope = null, low = null, high = null } = found ?? {};
  return {
    name,
    unit: `${unit}/h`,
    level: median(points.map(({ y }) => y)),
    max: Math.max(...points.map(({ y }) => y)),
    slope,
    low,
    high,
    grows: found !== null && isGrowing(found, TOLERATED[name] as { share: number; floor: number }),
  };
}

/**
 * Sizes by the number of calls: bytes a call. Tables whose retention bounds them have to stay as large as
 * they are.
 */
function judgeTables(samples: readonly Sample[]): Judged[] {
  const names = [...new Set(samples.flatMap(({ tables }) => [...tables.keys()]))].toSorted();
  const calls = (samples.at(-1)?.calls ?? 0) - (samples[0]?.calls ?? 0);
  return names.map((name) => {
    const points = samples.map((sample) => ({ x: sample.calls, y: sample.tables.get(name) ?? 0 }));
    const found = slopeOf(blocks(points, Math.max(1, calls / BLOCKS)));
    const { slope = null, low = null, high = null } = found ?? {};
    const isLeak = low !== null && low > 0 && (slope ?? 0) > LEAKED_ROW_BYTES;
    return {
      name: `table ${name}`,
      unit: 'bytes/call',
      level: median(points.map(({ y }) => y)),
      max: Math.max(...points.map(({ y }) => y)),
      slope,
      low,
      high,
      grows: growsInUse(name) ? growsFaster(points) : isLeak,
    };
  });
}

/** Whether a call needs more bytes in the second half than in the first. */
function growsFaster(points: readonly Point[]): boolean {
  const middle = Math.floor(points.length / 2);
  const growth = (part: readonly Point[]): { bytes: number; perCall: number } => {
    const bytes = (part.at(-1)?.y ?? 0) - (part[0]?.y ?? 0);
    return { bytes, perCall: bytes / Math.max(1, (part.at(-1)?.x ?? 0) - (part[0]?.x ?? 0)) };
  };
  const [first, second] = [growth(points.slice(0, middle + 1)), growth(points.slice(middle))];
  return (
    first.bytes > HALF_BYTES_MIN &&
    second.bytes > HALF_BYTES_MIN &&
    second.perCall > first.perCall * LATER_FACTOR
  );
}

/** Series that grow, as findings. */
export const growing = (judged: readonly Judged[]): Finding[] =>
  judged
    .filter(({ grows }) => grows)
    .map(({ name, unit, slope, low, high, level }) => ({
      rule: 'P10',
      request: '',
      message: `${name} grows by ${range({ slope, low, high })} ${unit}, at ${show(level)}`,
    }));

/** A slope with its confidence interval. */
const range = ({ slope, low, high }: Pick<Judged, 'slope' | 'low' | 'high'>): string =>
  `${show(slope)} (95 % ${show(low)} to ${show(high)})`;

export const show = (value: number | null): string =>
  value === null ? '-' : Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(2);
