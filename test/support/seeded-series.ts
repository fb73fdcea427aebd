/** Series of hourly usage with a known course, each determined by its seed. */

/** A random sequence (mulberry32), with uniform and lognormal values. */
export function randomOf(seed: number) {
  let state = seed >>> 0;
  const uniform = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let bits = Math.imul(state ^ (state >>> 15), 1 | state);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
  const normal = (): number => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
  return { uniform, noise: (sigma: number): number => Math.exp(sigma * normal()) };
}
type Random = ReturnType<typeof randomOf>;

const dayOf = (hour: number): number => Math.floor(hour / 24);
const isWorkday = (hour: number): boolean => dayOf(hour) % 7 < 5;
const isOfficeHour = (hour: number): boolean => isWorkday(hour) && hour % 24 >= 8 && hour % 24 < 18;

/** Usage of an hour as a share of a usual one. Hour 0 is the first of a Monday. */
export const COURSES = {
  steady: ({ noise }: Random) => noise(0.3),
  daily: ({ noise }: Random, hour: number) => (2 + Math.sin((hour / 12) * Math.PI)) * noise(0.3),
  office_hours: ({ noise }: Random, hour: number) => (isOfficeHour(hour) ? 1 : 0.02) * noise(0.4),
  idle_nights: ({ noise }: Random, hour: number) => (isOfficeHour(hour) ? noise(0.4) : 0),
  growing: ({ noise }: Random, hour: number) =>
    (isWorkday(hour) ? 1 : 0.3) * 1.02 ** (hour / 24) * noise(0.3),
  sporadic: ({ uniform, noise }: Random) => (uniform() < 0.2 ? noise(0.5) : 0),
  sparse: ({ uniform, noise }: Random) => (uniform() < 0.04 ? noise(0.5) : 0),
  weekly_job: ({ noise }: Random, hour: number) => (hour % 168 === 50 ? 20 : 0.1) * noise(0.3),
} as const;
export type Course = keyof typeof COURSES;
export const COURSE_NAMES = Object.keys(COURSES) as Course[];

/** Usage by hour in whole units. @param scale the units of a usual hour. */
export function seriesOf(course: Course, seed: number, hours: number, scale: number): number[] {
  const random = randomOf(seed);
  return Array.from({ length: hours }, (_, hour) => Math.round(scale * COURSES[course](random, hour)));
}

/** The same by day. */
export function daysOf(hours: readonly number[]): number[] {
  return Array.from({ length: Math.floor(hours.length / 24) }, (_, day) =>
    hours.slice(day * 24, day * 24 + 24).reduce((sum, each) => sum + each, 0),
  );
}

/** A usual hour with usage, without noise. */
export const usualOf = (course: Course, hour: number, scale: number): number =>
  scale * COURSES[course]({ uniform: () => 0, noise: () => 1 }, hour);
