import type { Exemplar, HistogramValue, MetricDefinition, Sample } from '#db/telemetry/definition.ts';

/** Metrics as text, for Prometheus and whatever else reads its formats. Pure. */

/** `openmetrics`: OpenMetrics 1.0 with exemplars. `plain`: Prometheus' older format 0.0.4, without them. */
export type TextFormat = 'openmetrics' | 'plain';

export const CONTENT_TYPES: Record<TextFormat, string> = {
  openmetrics: 'application/openmetrics-text; version=1.0.0; charset=utf-8',
  plain: 'text/plain; version=0.0.4; charset=utf-8',
};

/** The format for a scraper that accepts these media types. */
export const formatFor = (accept: string | undefined): TextFormat =>
  accept?.includes('application/openmetrics-text') === true ? 'openmetrics' : 'plain';

/** What a process, or the database, reports; the name of the process is a label of each of its series. */
export type Scrape = { process: string | null; samples: readonly Sample[] };

/** All samples of the defined metrics, of each metric together. Metrics without a sample are omitted. */
export function writeMetrics(
  definitions: readonly MetricDefinition[],
  scrapes: readonly Scrape[],
  format: TextFormat,
): string {
  const lines: string[] = [];
  const byName = new Map<string, { process: string | null; sample: Sample }[]>();
  for (const { process, samples } of scrapes)
    for (const sample of samples) {
      const known = byName.get(sample.name);
      if (known) known.push({ process, sample });
      else byName.set(sample.name, [{ process, sample }]);
    }
  for (const definition of definitions) {
    const found = byName.get(definition.name);
    if (!found) continue;
    const { name, type, unit, help } = definition;
    // The older format names a counter with its suffix.
    const family = format === 'plain' && type === 'counter' ? `${name}_total` : name;
    lines.push(`# TYPE ${family} ${type}`);
    if (format === 'openmetrics' && unit !== undefined) lines.push(`# UNIT ${family} ${unit}`);
    lines.push(`# HELP ${family} ${escapeHelp(help)}`);
    for (const { process, sample } of found) writeSample(lines, definition, process, sample, format);
  }
  if (format === 'openmetrics') lines.push('# EOF');
  return `${lines.join('\n')}\n`;
}

function writeSample(
  lines: string[],
  { name, type, labels, buckets = [] }: MetricDefinition,
  process: string | null,
  sample: Sample,
  format: TextFormat,
): void {
  const pairs = labels.map((label, index) => pair(label, sample.labels[index] ?? ''));
  if (process !== null) pairs.push(pair('process', process));
  if (typeof sample.value === 'number') {
    lines.push(`${name}${type === 'counter' ? '_total' : ''}${inBraces(pairs)} ${number(sample.value)}`);
    return;
  }
  const { counts, sum, exemplars }: HistogramValue = sample.value;
  let cumulative = 0;
  for (const [index, count] of counts.entries()) {
    cumulative += count;
    const bound = buckets[index];
    const le = pair('le', bound === undefined ? '+Inf' : number(bound));
    const exemplar = format === 'openmetrics' ? exemplarText(exemplars[index] ?? null) : '';
    lines.push(`${name}_bucket${inBraces([...pairs, le])} ${cumulative}${exemplar}`);
  }
  lines.push(`${name}_sum${inBraces(pairs)} ${number(sum)}`, `${name}_count${inBraces(pairs)} ${cumulative}`);
}

/** At most 128 characters of names and values, as the format demands: a request id has 36, a trace id 32. */
function exemplarText(exemplar: Exemplar | null): string {
  if (exemplar === null) return '';
  const { request, trace, value, atMs } = exemplar;
  const pairs = [pair('request_id', request)];
  if (trace !== null) pairs.push(pair('trace_id', trace));
  return ` # ${inBraces(pairs)} ${number(value)} ${(atMs / 1000).toFixed(3)}`;
}

const inBraces = (pairs: readonly string[]): string => (pairs.length === 0 ? '' : `{${pairs.join(',')}}`);

const pair = (label: string, value: string): string =>
  `${label}="${value.replace(/[\\"\n]/g, (character) => (character === '\n' ? '\\n' : `\\${character}`))}"`;

const escapeHelp = (text: string): string =>
  text.replace(/[\\\n"]/g, (each) => (each === '\n' ? '\\n' : `\\${each}`));

/** Bounds of buckets have a decimal point, as OpenMetrics demands of floats in `le`. */
function number(value: number): string {
  if (Number.isInteger(value)) return Math.abs(value) < 1e15 ? `${value}.0` : String(value);
  return String(value);
}
