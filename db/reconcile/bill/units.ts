import { PRICED_PARTS, type PricedPart, TOKEN_CLASSES } from '#db/pricing/parts.ts';
import { parseScaled } from '#db/reconcile/bill/decimal.ts';

/** Names of parts and units in files of any provider. Pure. */

/** Providers' names of the parts, in lower case with single blanks. */
const PART_NAMES: { readonly [Name in string]?: PricedPart | 'requests' } = {
  'input tokens': 'input',
  'prompt tokens': 'input',
  'cached input tokens': 'cache_read',
  'cached input': 'cache_read',
  'cache read': 'cache_read',
  'cache read input tokens': 'cache_read',
  'cache write': 'cache_write_5m',
  'cache write input tokens': 'cache_write_5m',
  'output tokens': 'output',
  'completion tokens': 'output',
  'reasoning tokens': 'reasoning',
  'audio input tokens': 'audio_input',
  'audio output tokens': 'audio_output',
  'image input tokens': 'image_input',
  'image output tokens': 'image_output',
  images: 'image',
  'web searches': 'web_search',
  requests: 'requests',
};

/** The part of a name such as `cache_read` or `Cached Input Tokens`; null if it names none. */
export function partNamed(name: string): PricedPart | 'requests' | null {
  if ((PRICED_PARTS as readonly string[]).includes(name)) return name as PricedPart;
  return (
    PART_NAMES[
      name
        .toLowerCase()
        .replaceAll(/[\s_-]+/g, ' ')
        .trim()
    ] ?? null
  );
}

/** Units of usage: the parts that they count, and the factor to their unit. */
const UNITS: { readonly [Unit in string]?: { measures: readonly string[]; factor: bigint } } = {
  token: { measures: TOKEN_CLASSES, factor: 1n },
  request: { measures: ['requests', 'web_search', 'tool_call'], factor: 1n },
  call: { measures: ['requests', 'web_search', 'tool_call'], factor: 1n },
  search: { measures: ['web_search'], factor: 1n },
  image: { measures: ['image'], factor: 1n },
  character: { measures: ['characters'], factor: 1n },
  millisecond: { measures: ['media_hour'], factor: 1n },
  second: { measures: ['media_hour'], factor: 1_000n },
  minute: { measures: ['media_hour'], factor: 60_000n },
  hour: { measures: ['media_hour'], factor: 3_600_000n },
};
const MULTIPLES: { readonly [Word in string]?: number } = {
  k: 3,
  '1k': 3,
  '1000': 3,
  thousand: 3,
  m: 6,
  '1m': 6,
  '1000000': 6,
  million: 6,
};

/**
 * A quantity such as `1.5` of `1K Tokens`, in the unit of its part.
 * @returns null if the unit is unknown, isn't the part's, or the result is no integer.
 */
export function quantityOf(text: string, unit: string, part: PricedPart | 'requests'): bigint | null {
  const words = unit.toLowerCase().replaceAll(',', '').trim().split(/\s+/);
  const multiple = words.length === 2 ? MULTIPLES[words[0] ?? ''] : 0;
  const known = UNITS[(words.at(-1) ?? '').replace(/(?<=search)es$|s$/, '')];
  if (multiple === undefined || words.length > 2 || !known?.measures.includes(part)) return null;
  const value = parseScaled(text, multiple + 30);
  if (value === null) return null;
  const scaled = value * known.factor;
  const divisor = 10n ** 30n;
  return scaled % divisor === 0n ? scaled / divisor : null;
}
