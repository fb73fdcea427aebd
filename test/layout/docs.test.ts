import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { describeConfig, readConfig } from '#server/process/config.ts';
import { API_ERRORS } from '#server/errors/api-errors.ts';
import { DASHBOARD_ERRORS } from '#server/errors/dashboard-errors.ts';
import { describeWorkerConfig, readWorkerConfig } from '../../worker/config.ts';
import { ROOT } from './source.ts';

const readText = (name: string): string => readFileSync(path.join(ROOT, name), 'utf8');
const PAGES = [
  'README.md',
  'docs/upstreams.md',
  'docs/limits.md',
  'docs/api.md',
  'docs/dashboard.md',
  'docs/operation.md',
  'docs/audit.md',
  'docs/witness.md',
  'docs/backup.md',
  'deploy/README.md',
  'bench/README.md',
];
const readme = readText('README.md');
const { scripts } = JSON.parse(readText('package.json')) as { scripts: Record<string, string> };

/** The cells of each table row of a page whose cell number `at` is one word in backticks. */
function rowsNaming(page: string, at: number): string[][] {
  return readText(page)
    .split('\n')
    .filter((line) => line.startsWith('| '))
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    )
    .filter((cells) => /^`\w+`$/.test(cells[at] ?? ''))
    .map((cells) => cells.map((cell) => cell.replaceAll('`', '')));
}

describe('what strangers read', () => {
  it('gives the two commands, and CI runs the second', () => {
    expect(readme).toContain('\nnpm ci && npm start ');
    expect(readme).toContain('\nnpm ci && npm test ');
    expect(readText('.ci/run')).toMatch(/^npm ci && npm test /m);
  });

  it('lists every variable of the configuration with its true default', () => {
    const told = rowsNaming('docs/operation.md', 0).map(([name, value]) => [name, value]);
    const spell = (value: unknown): string =>
      (typeof value === 'string' ? value : JSON.stringify(value)).replace(/^(null|\[\])$/, 'none');
    const all = { ...describeConfig(readConfig({})), ...describeWorkerConfig(readWorkerConfig({})) };
    const defaults = Object.entries(all).map(([name, value]) => [name, spell(value)]);
    expect(told).toEqual(defaults);
  });

  it('lists every refusal with its true status and wait', () => {
    const told = rowsNaming('docs/api.md', 1).map(([status, code, wait]) => `${code} ${status} ${wait}`);
    const catalogue = Object.entries(API_ERRORS).map(
      ([code, row]) => `${code} ${row.status} ${'retryAfterS' in row ? row.retryAfterS : ''}`,
    );
    expect(told).toHaveLength(catalogue.length);
    expect(new Set(told)).toEqual(new Set(catalogue));
  });

  it('lists every refusal of the dashboard with its true status', () => {
    const told = rowsNaming('docs/dashboard.md', 1).map(([status, code]) => `${code} ${status}`);
    const catalogue = Object.entries(DASHBOARD_ERRORS).map(([code, row]) => `${code} ${row.status}`);
    expect(told).toHaveLength(catalogue.length);
    expect(new Set(told)).toEqual(new Set(catalogue));
  });

  it('names only npm scripts, files and rooms that are there', () => {
    const text = PAGES.map(readText).join('\n');
    const run = [...text.matchAll(/npm run (?:-s )?([\w:]+)/g)].map(([, name]) => name as string);
    expect(run.filter((name) => !(name in scripts))).toEqual([]);
    const named = [...text.matchAll(/`((?:db|server|worker|web|test|bench|deploy)\/[\w./-]*)`/g)].map(
      ([, name]) => name as string,
    );
    expect(named.length).toBeGreaterThan(0);
    expect(named.filter((name) => !existsSync(path.join(ROOT, name)))).toEqual([]);
  });

  it.each(PAGES)('leads nowhere but to pages that are there: %s', (page) => {
    const links = [...readText(page).matchAll(/\]\((?!https?:)([^)#]+)/g)].map(([, link]) =>
      path.join(path.dirname(page), link as string),
    );
    expect(links.filter((link) => !existsSync(path.join(ROOT, link)))).toEqual([]);
  });

  it('leads to every page', () => {
    expect(PAGES.filter((page) => page !== 'README.md' && !readme.includes(`](${page})`))).toEqual([]);
  });

  it.each(PAGES)('can be read in one sitting: %s', (page) =>
    expect(readText(page).split('\n').length).toBeLessThan(200),
  );
});
