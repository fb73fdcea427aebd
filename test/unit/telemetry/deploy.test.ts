import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { METRICS } from '#db/telemetry/catalogue.ts';
import { hasTool, refusalOf } from '../../support/telemetry/tools.ts';

/** The dashboard and the alert rules in `deploy/`. */

const ROOT = path.join(import.meta.dirname, '../../..');
const RULES = path.join(ROOT, 'deploy/prometheus-rules.yml');
const read = (name: string): string => readFileSync(path.join(ROOT, name), 'utf8');

type Rule = {
  alert: string;
  expr: string;
  labels: { severity: string };
  annotations: Record<string, string>;
};
type Panel = { title: string; type: string; targets?: { expr: string }[]; gridPos: { x: number; w: number } };
const rules = (parse(read('deploy/prometheus-rules.yml')) as { groups: { rules: Rule[] }[] }).groups.flatMap(
  (group) => group.rules,
);
const { panels } = JSON.parse(read('deploy/grafana-dashboard.json')) as { panels: Panel[] };
const expressions = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));

/** The names that queries may have, each with the labels of its series. */
const known = new Map(
  METRICS.flatMap(({ name, type, labels, origin }) => {
    const names =
      type === 'counter'
        ? [`${name}_total`]
        : type === 'histogram'
          ? ['_bucket', '_sum', '_count'].map((suffix) => name + suffix)
          : [name];
    const all = [...labels, ...(origin === 'service' ? [] : ['process']), 'instance', 'job', 'le'];
    return names.map((each) => [each, all] as const);
  }),
);

/** What a query selects or groups by that no metric has. */
function unknownIn(expression: string): string[] {
  const used = [...expression.matchAll(/\b((?:daybook|process|nodejs)_[a-z_]+)\b(?:\{([^}]*)\})?/g)];
  const grouped = [...expression.matchAll(/by \(([^)]*)\)/g)].flatMap(([, names = '']) => names.split(/, */));
  return used.flatMap(([, name = '', matchers = '']) => {
    const labels = known.get(name);
    if (!labels) return [name];
    const asked = [...matchers.matchAll(/([a-z_]+)\s*[=!]/g)].map(([, label = '']) => label);
    return [...asked, ...grouped]
      .filter((label) => !labels.includes(label))
      .map((label) => `${name}.${label}`);
  });
}

test('alert rules and dashboard use metrics and labels that exist', () => {
  expect(expressions.length).toBeGreaterThan(20);
  expect(rules.flatMap(({ expr }) => unknownIn(expr))).toEqual([]);
  expect(expressions.flatMap(unknownIn)).toEqual([]);
  expect(
    unknownIn('sum by (model, key) (rate(daybook_requests_total{user="a"}[5m])) + daybook_none'),
  ).toEqual(['daybook_requests_total.user', 'daybook_requests_total.key', 'daybook_none']);
});

test('each alert has a severity and a runbook, and its row in the docs', () => {
  const documented = [...read('docs/metrics.md').matchAll(/^\| `(Daybook\w+)` \| (\w+) \|/gm)];
  expect(documented.map(([, alert, severity]) => [alert, severity])).toEqual(
    rules.map(({ alert, labels }) => [alert, labels.severity]),
  );
  for (const { annotations } of rules)
    expect(Object.keys(annotations)).toEqual(['summary', 'description', 'runbook']);
});

test('the panels of the dashboard fit into its grid and have titles of their own', () => {
  expect(new Set(panels.map(({ title }) => title)).size).toBe(panels.length);
  expect(panels.filter(({ gridPos: { x, w } }) => x + w > 24)).toEqual([]);
});

test.skipIf(!hasTool('promtool'))('promtool accepts the alert rules and the queries of the dashboard', () => {
  expect(refusalOf('promtool', ['check', 'rules', RULES])).toBeNull();
  expect(
    refusalOf('promtool', ['test', 'rules', path.join(ROOT, 'test/telemetry/rules.test.yml')]),
  ).toBeNull();
  const concrete = expressions.map((each) =>
    each.replaceAll('$__rate_interval', '1m').replaceAll('$instance', '.*'),
  );
  const asRules = concrete.map((expr, index) => ({ record: `panel:${index}`, expr }));
  // Promtool reads rules from a file, and JSON is YAML.
  const directory = mkdtempSync(path.join(tmpdir(), 'daybook-rules-'));
  const file = path.join(directory, 'panels.yml');
  writeFileSync(file, JSON.stringify({ groups: [{ name: 'panels', rules: asRules }] }));
  expect(refusalOf('promtool', ['check', 'rules', file])).toBeNull();
  rmSync(directory, { recursive: true });
});

test.skipIf(!hasTool('amtool'))('amtool accepts the example for Alertmanager', () => {
  expect(refusalOf('amtool', ['check-config', path.join(ROOT, 'deploy/alertmanager.yml')])).toBeNull();
});
