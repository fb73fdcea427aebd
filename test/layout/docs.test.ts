import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { Command as CommanderCommand } from 'commander';
import { describe, expect, it } from 'vitest';
import type { Command } from '#db/command-line/command.ts';
import { buildProgram } from '#server/cli/program.ts';
import { describeConfig, readConfig } from '#server/process/config.ts';
import { API_ERRORS } from '#server/errors/api-errors.ts';
import { DASHBOARD_ERRORS } from '#server/errors/dashboard-errors.ts';
import { COMMAND_VARIABLES, DAYBOOK_VARIABLES } from '#db/configuration/names.ts';
import { describeWorkerConfig, readWorkerConfig } from '#db/configuration/worker-config.ts';
import { managementRoutes } from './api-routes.ts';
import { withAuditTables } from './audit-format.ts';
import { auditVectors } from './audit-vectors.ts';
import { cliReference } from './cli-reference.ts';
import { withMetricTables } from './metrics-reference.ts';
import { withProtocolTables } from './protocol-matrix.ts';
import { readFolders, ROOT } from './source.ts';

const readText = (name: string): string => readFileSync(path.join(ROOT, name), 'utf8');
const PAGES = [
  'README.md',
  'ARCHITECTURE.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  'CHANGELOG.md',
  'deploy/README.md',
  'bench/README.md',
  ...readdirSync(path.join(ROOT, 'docs'))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
];
const readme = readText('README.md');
const { scripts } = JSON.parse(readText('package.json')) as { scripts: Record<string, string> };

/** Cells of each table row, of a page or one of its sections, whose cell `at` is one word in backticks. */
function rowsNaming(page: string, at: number, section = ''): string[][] {
  const [, text = ''] = section === '' ? ['', readText(page)] : readText(page).split(`\n## ${section}\n`);
  return (section === '' ? text : (text.split('\n## ', 1)[0] as string))
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

/** The number of lines of a page, without its generated tables. */
const writtenLines = (text: string): number =>
  text.replace(/<!-- (\w+) -->.*?<!-- \/\1 -->/gs, '').split('\n').length;

/** The words of each `daybook` or `audit` command that a page shows. */
function commandLinesIn(page: string): string[][] {
  return [...readText(page).matchAll(/npm run -s (daybook|audit) -- ([^\n`#|&]+)/g)].map(
    ([, program, line]) => [
      ...(program === 'audit' && !/^(witness)\b/.test(line as string) ? ['audit'] : []),
      ...(line as string)
        .replace(/'[^']*'/g, 'VALUE')
        .trim()
        .split(/\s+/),
    ],
  );
}

/** What a shown command line has that the program doesn't. */
function faultOfCommand(program: Command, words: readonly string[]): string[] {
  let command: CommanderCommand = program;
  const rest = [...words];
  for (let next = rest[0]; next !== undefined; next = rest[0]) {
    const found = command.commands.find((each) => each.name() === next);
    if (!found) break;
    command = found;
    rest.shift();
  }
  const line = words.join(' ');
  if (command === program && line !== '…') return [`${line}: no such command`];
  return rest
    .filter((word) => word.startsWith('--'))
    .filter((word) => !command.options.some(({ long }) => long === word.split('=')[0]))
    .map((word) => `${line}: no option ${word}`);
}

describe('documentation', () => {
  it('README has the two commands, and CI runs the second', () => {
    expect(readme).toContain('\nnpm ci && npm start ');
    expect(readme).toContain('\nnpm ci && npm test ');
    expect(readText('.ci/run')).toMatch(/^npm ci && npm test /m);
  });

  it('configuration.md lists every variable with its default', () => {
    const documented = rowsNaming('docs/configuration.md', 0).map(([name, value]) => [name, value]);
    const spell = (value: unknown): string =>
      (typeof value === 'string' ? value : JSON.stringify(value)).replace(/^(null|\[\])$/, 'none');
    const all = { ...describeConfig(readConfig({})), ...describeWorkerConfig(readWorkerConfig({})) };
    const defaults = Object.entries(all).map(([name, value]) => [name, spell(value)]);
    expect(documented).toEqual([
      ...defaults,
      ...COMMAND_VARIABLES.map((name) => [name, 'none']),
      ['XDG_CONFIG_HOME', 'none'],
    ]);
  });

  it('configuration.md has every variable that a program reads', () => {
    const read = readFolders(['server', 'db', 'worker']).flatMap(({ path: name, text }) =>
      [...text.matchAll(/\benv(?:\.|\[')([A-Z][A-Z\d_]+)|\.env\('([A-Z\d_]+)'/g)].map(
        ([, one, other]) => `${one ?? other ?? ''} (${name})`,
      ),
    );
    expect(read.length).toBeGreaterThan(5);
    const documented = new Set(rowsNaming('docs/configuration.md', 0).map(([name]) => name));
    const isDocumented = (line: string): boolean => documented.has(line.split(' ', 1)[0] ?? '');
    expect(read.filter((line) => !isDocumented(line) && !line.startsWith('NODE_COMPILE_CACHE'))).toEqual([
      // The user's own directory, for the login and for settings of coding agents.
      'HOME (server/cli/remote/login-file.ts)',
      'HOME (server/cli/setup/setup.ts)',
    ]);
  });

  it('all variables with our prefix are in the list that typing errors are compared with', () => {
    const all = { ...describeConfig(readConfig({})), ...describeWorkerConfig(readWorkerConfig({})) };
    const prefixed = Object.keys(all).filter((name) => name.startsWith('DAYBOOK_'));
    expect(DAYBOOK_VARIABLES.toSorted()).toEqual(
      [...prefixed, ...COMMAND_VARIABLES, 'DAYBOOK_MANAGEMENT_KEY_FILE', 'DAYBOOK_UPSTREAMS_FILE'].toSorted(),
    );
  });

  it('errors.md lists every API error with its status and Retry-After', () => {
    const documented = rowsNaming('docs/errors.md', 1, 'API errors').map(
      ([status, code, wait]) => `${code} ${status} ${wait}`,
    );
    const catalogue = Object.entries(API_ERRORS).map(
      ([code, row]) => `${code} ${row.status} ${'retryAfterS' in row ? row.retryAfterS : ''}`,
    );
    expect(documented).toHaveLength(catalogue.length);
    expect(new Set(documented)).toEqual(new Set(catalogue));
  });

  it('errors.md lists every dashboard error with its status', () => {
    const documented = rowsNaming('docs/errors.md', 1, 'Dashboard errors').map(
      ([status, code]) => `${code} ${status}`,
    );
    const catalogue = Object.entries(DASHBOARD_ERRORS).map(([code, row]) => `${code} ${row.status}`);
    expect(documented).toHaveLength(catalogue.length);
    expect(new Set(documented)).toEqual(new Set(catalogue));
  });

  it('names only npm scripts, files and folders that exist', () => {
    const text = PAGES.map(readText).join('\n');
    const run = [...text.matchAll(/npm run (?:-s )?([\w:]+)/g)].map(([, name]) => name as string);
    expect(run.filter((name) => !(name in scripts))).toEqual([]);
    const named = [...text.matchAll(/`((?:db|server|worker|web|test|bench|deploy)\/[\w./-]*)`/g)].map(
      ([, name]) => name as string,
    );
    expect(named.length).toBeGreaterThan(0);
    expect(named.filter((name) => !existsSync(path.join(ROOT, name)))).toEqual([]);
  });

  it('cli.md is the reference of the commands as they are; npm run docs writes it', async () => {
    const program = await buildProgram({ env: {}, out: () => undefined, err: () => undefined });
    expect(readText('docs/cli.md')).toBe(cliReference(program));
    expect(readText('docs/management-routes.md')).toBe(managementRoutes());
  });

  it('audit-format.md has the columns and codes as they are; npm run docs writes them', () => {
    expect(readText('docs/audit-format.md')).toBe(withAuditTables(readText('docs/audit-format.md')));
    expect(JSON.parse(readText('docs/audit-vectors.json'))).toEqual(auditVectors());
  });

  it('protocols.md has the parts that each protocol carries as they are; npm run docs writes them', () => {
    expect(readText('docs/protocols.md')).toBe(withProtocolTables(readText('docs/protocols.md')));
  });

  it('metrics.md lists every metric; npm run docs writes its tables', () => {
    expect(readText('docs/metrics.md')).toBe(withMetricTables(readText('docs/metrics.md')));
  });

  it('shows only commands and options that exist', async () => {
    const program = await buildProgram({ env: {}, out: () => undefined, err: () => undefined });
    const shown = PAGES.flatMap(commandLinesIn);
    expect(shown.length).toBeGreaterThan(30);
    expect(shown.flatMap((words) => faultOfCommand(program, words))).toEqual([]);
  });

  it.each(PAGES)('has no broken link: %s', (page) => {
    const links = [...readText(page).matchAll(/\]\((?!https?:)([^)#]+)/g)].map(([, link]) =>
      path.join(path.dirname(page), link as string),
    );
    expect(links.filter((link) => !existsSync(path.join(ROOT, link)))).toEqual([]);
  });

  it('README links every page', () => {
    expect(PAGES.filter((page) => page !== 'README.md' && !readme.includes(`](${page})`))).toEqual([]);
  });

  it.each(PAGES.filter((page) => page !== 'docs/cli.md'))('no page is longer than 200 lines: %s', (page) =>
    expect(writtenLines(readText(page))).toBeLessThan(200),
  );
});
