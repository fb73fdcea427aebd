/** One line of a scrape: the value of a series, or of a histogram's bucket, sum or count. */
export type ScrapedValue = {
  name: string;
  labels: Record<string, string>;
  value: number;
  exemplar: Record<string, string> | null;
};

export type ScrapeText = { status: number; type: string; text: string };

export const OPENMETRICS = 'application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2';

/** The reply of `/metrics`, by default as Prometheus asks for it. */
export async function scrapeText(port: number, accept = OPENMETRICS, token?: string): Promise<ScrapeText> {
  const reply = await fetch(`http://127.0.0.1:${port}/metrics`, {
    headers: { accept, ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) },
  });
  return { status: reply.status, type: reply.headers.get('content-type') ?? '', text: await reply.text() };
}

/** The port of the metrics of a server process, by its output with `LOG_LEVEL=info`. */
export const metricsPortOf = (output: string): number =>
  Number(/"port":(\d+),"msg":"metrics served"/.exec(output)?.[1]);

/** All values of a scrape. @throws {Error} where it is not OpenMetrics. */
export async function scrape(port: number): Promise<ScrapedValue[]> {
  return readOpenMetrics((await scrapeText(port)).text);
}

const LABELS = String.raw`\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\}`;
const NUMBER = String.raw`-?\d+(?:\.\d+)?(?:e[+-]?\d+)?`;
const LINE = new RegExp(`^([a-z_:]+)(?:${LABELS})? (${NUMBER})(?: # ${LABELS} ${NUMBER} ${NUMBER})?$`);
const TYPES = /^# TYPE ([a-z_]+) (counter|gauge|histogram)$/;
const SUFFIXES = { counter: ['_total'], gauge: [''], histogram: ['_bucket', '_sum', '_count'] } as const;

/**
 * Reads the subset of OpenMetrics that Daybook writes, strictly: each line belongs to the family above it, no
 * family and no series comes twice, and `# EOF` is last.
 */
export function readOpenMetrics(text: string): ScrapedValue[] {
  const lines = text.split('\n');
  if (lines.pop() !== '' || lines.pop() !== '# EOF') throw new Error('the text does not end in # EOF');
  const values: ScrapedValue[] = [];
  const families = new Set<string>();
  const series = new Set<string>();
  let names: string[] = [];
  for (const line of lines) {
    const type = TYPES.exec(line);
    if (type) {
      const [, family = '', kind = 'gauge'] = type;
      if (families.has(family)) throw new Error(`${family} comes twice`);
      families.add(family);
      names = SUFFIXES[kind as keyof typeof SUFFIXES].map((suffix) => family + suffix);
      continue;
    }
    if (/^# (?:HELP|UNIT) /.test(line)) continue;
    const found = LINE.exec(line);
    if (!found) throw new Error(`no line of OpenMetrics: ${line}`);
    const [, name = '', labels = '', value = '', exemplar] = found;
    if (!names.includes(name)) throw new Error(`${name} is not of the family above it`);
    const key = `${name}{${labels}}`;
    if (series.has(key)) throw new Error(`${key} comes twice`);
    series.add(key);
    values.push({
      name,
      labels: readLabels(labels),
      value: Number(value),
      exemplar: exemplar === undefined ? null : readLabels(exemplar),
    });
  }
  return values;
}

const readLabels = (text: string): Record<string, string> =>
  Object.fromEntries(
    [...text.matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"/g)].map(([, name = '', value = '']) => [
      name,
      value.replace(/\\(.)/g, (_, each: string) => (each === 'n' ? '\n' : each)),
    ]),
  );

/** The sum of the series of a metric that have these labels. */
export const sumOf = (
  values: readonly ScrapedValue[],
  name: string,
  labels: Record<string, string> = {},
): number =>
  values
    .filter((each) => each.name === name)
    .filter((each) => Object.entries(labels).every(([label, value]) => each.labels[label] === value))
    .reduce((sum, { value }) => sum + value, 0);
