import { METRICS } from '#db/telemetry/catalogue.ts';
import type { MetricDefinition } from '#db/telemetry/definition.ts';

/** The generated tables of docs/metrics.md. */
const TABLES: Record<string, () => string> = {
  server_metrics: () => table(METRICS.filter(({ origin }) => origin === 'server')),
  worker_metrics: () => table(METRICS.filter(({ origin }) => origin === 'worker')),
  process_metrics: () => table(METRICS.filter(({ origin }) => origin === 'all')),
  service_metrics: () => table(METRICS.filter(({ origin }) => origin === 'service')),
};

/** The page with its generated tables. */
export function withMetricTables(page: string): string {
  return Object.entries(TABLES).reduce(
    (text, [name, make]) =>
      text.replace(
        new RegExp(`<!-- ${name} -->[\\s\\S]*?<!-- /${name} -->`),
        () => `<!-- ${name} -->\n\n${make()}\n\n<!-- /${name} -->`,
      ),
    page,
  );
}

function table(metrics: readonly MetricDefinition[]): string {
  const rows = metrics.map((metric) => {
    const labels = metric.labels.map((label) => `\`${label}\``).join(', ');
    const { type, unit = '', help } = metric;
    return `| \`${shownName(metric)}\` | ${type} | ${unit} | ${labels} | ${help} |`;
  });
  return ['| metric | type | unit | labels | meaning |', '| --- | --- | --- | --- | --- |', ...rows].join(
    '\n',
  );
}

/** As queries name it. */
const shownName = ({ name, type }: MetricDefinition): string => (type === 'counter' ? `${name}_total` : name);
