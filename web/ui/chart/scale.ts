/** Axis ticks of charts. Pure. */

const TICKS_ABOUT = 4;

/** Round ticks from 0 up to at least `max`. */
export function roundTicks(max: number): number[] {
  if (!(max > 0)) return [0, 1];
  const rough = max / TICKS_ABOUT;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 2.5, 5, 10].find((each) => each * power >= rough * 0.999) ?? 10) * power;
  const ticks = Math.ceil((max / step) * 0.999);
  return Array.from({ length: ticks + 1 }, (_, index) => index * step);
}

const STEPS = [1, 2, 3, 5, 6, 10, 12, 15, 24, 30, 48, 72, 96, 120, 168, 240, 336];

/** The indices of at most `most` evenly spaced axis labels. */
export function labelled(count: number, most: number): number[] {
  const step = STEPS.find((each) => count / each <= most) ?? Math.ceil(count / most);
  return Array.from({ length: count }, (_, index) => index).filter(
    (index) => (count - 1 - index) % step === 0,
  );
}
