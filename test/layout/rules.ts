import { SHARED_WITH_PAGE } from '#server/process/web-build.ts';
import { type File, targetOf } from './source.ts';

/** One violation of a rule: where, and how to fix it. */
export type Violation = string;

/** Allowed imports of each top-level folder: paths or prefixes of paths. */
export const FOLDERS: Record<string, readonly string[]> = {
  db: ['db/'],
  server: ['db/', 'server/'],
  worker: ['db/', 'worker/'],
  web: [
    'db/alerts/alert-line.ts',
    'db/alerts/alert-name.ts',
    'db/alerts/alert-path.ts',
    'db/alerts/alerts.ts',
    'db/alerts/destination-kinds.ts',
    'db/events/admission.ts',
    'db/events/billing-events.ts',
    'db/events/parts.ts',
    'db/events/endings.ts',
    'db/events/events.ts',
    'db/events/management-scopes.ts',
    'db/fold/',
    'db/limits/limits.ts',
    'db/limits/meters.ts',
    'db/limits/subjects.ts',
    'db/limits/titles.ts',
    'db/money.ts',
    'db/pricing/',
    'db/projections/buckets.ts',
    'db/reconcile/classes.ts',
    'db/spend/sink-config.ts',
    'db/spend/sink-kinds.ts',
    'db/statement/document.ts',
    'db/events/upstream-events.ts',
    'db/limits/windows.ts',
    'server/contract/',
    'web/',
  ],
  bench: [''],
  deploy: ['deploy/'],
  test: [''],
};

/** Modules that the page imports at run time. Of all others it may import types, which add no bytes. */
const PAGE_VALUES = [...SHARED_WITH_PAGE, 'web/'];

/** Folders that are imported by their `#` alias everywhere, within themselves too: one spelling per file. */
const ALIASED_FOLDERS = ['db', 'server'];

/** Folders whose children don't import one another, with the one file that they share. */
const INDEPENDENT: Record<string, string | null> = {
  'server/providers/': 'server/providers/provider.ts',
  'web/features/': null,
};

/** Layers of the request path, the lowest first: files of a layer import nothing from those above it. */
const LAYERS = ['server/wire/', 'server/providers/', 'server/relay/'];

/** Events, folds, decisions and other modules without I/O. */
const PURE = [
  'db/assert-increasing.ts',
  'db/events/codes.ts',
  'db/events/admission.ts',
  'db/events/endings.ts',
  'db/events/account-events.ts',
  'db/events/key-events.ts',
  'db/events/management-key-events.ts',
  'db/events/identity/identity-events.ts',
  'db/events/identity/workload-events.ts',
  'db/events/management-scopes.ts',
  'db/events/rejection-events.ts',
  'db/attribution/value.ts',
  'db/events/attribution-events.ts',
  'db/events/billing-events.ts',
  'db/events/count-events.ts',
  'db/events/parts.ts',
  'db/events/subjects.ts',
  'db/events/events.ts',
  'db/fold/',
  'db/limits/limits.ts',
  'db/limits/meters.ts',
  'db/limits/subjects.ts',
  'db/events/log-events.ts',
  'db/events/price-events.ts',
  'db/events/usage-details.ts',
  'db/events/quota-events.ts',
  'db/events/usage-events.ts',
  'db/events/member-events.ts',
  'db/money.ts',
  'db/statement/invoices.ts',
  'db/statement/document.ts',
  'db/pricing/',
  'db/projections/buckets.ts',
  'db/reconcile/classes.ts',
  'db/projections/outcomes.ts',
  'db/events/streams.ts',
  'db/events/reconciliation-events.ts',
  'db/events/sink-events.ts',
  'db/events/upstream-events.ts',
  'db/limits/windows.ts',
  'db/spend/sink-config.ts',
  'db/spend/sink-kinds.ts',
  'db/spend/spend-event.ts',
  'server/decide/',
];
const PURE_PACKAGES = ['zod'];

const CATCH_ALLS = new Set(['utils', 'util', 'types', 'lib', 'helpers', 'helper', 'common', 'misc']);

/** The length of a file is a guide: tests hold tables of cases and may be longer. */
const LINES_MAX = 400;
const TEST_LINES_MAX = 500;
const FOLDER_FILES_MAX = 25;
/** As in .oxfmtrc.json; oxfmt can't break strings and comments. */
const COLUMNS_MAX = 110;

/** Recorded or generated files: fixtures, lock files, dashboards, snapshots and types of the schema. */
const isGenerated = (path: string): boolean =>
  path.startsWith('test/fixtures/') ||
  path.endsWith('package-lock.json') ||
  path.endsWith('go.sum') ||
  path === 'deploy/grafana-dashboard.json' ||
  path === 'db/schema/snapshot.sql' ||
  path === 'db/schema/tables.ts' ||
  path.startsWith('db/schema/released/');

const linesMaxOf = (path: string): number => (path.endsWith('.test.ts') ? TEST_LINES_MAX : LINES_MAX);

const startsWithAny = (name: string, beginnings: readonly string[]): boolean =>
  beginnings.some((each) => name.startsWith(each));
const topFolderOf = (name: string): string => name.split('/', 1)[0] as string;

/** Every import of a file, with its target file; packages are excluded. */
function edges(files: readonly File[]): { from: string; to: string; specifier: string }[] {
  return files.flatMap(({ path, imports }) =>
    imports.flatMap(({ specifier }) => {
      const to = targetOf(specifier, path);
      return to === null ? [] : [{ from: path, to, specifier }];
    }),
  );
}

/** A top-level folder imports only the folders that it may. */
export function importViolations(files: readonly File[]): Violation[] {
  return edges(files)
    .filter(({ from, to }) => !startsWithAny(to, FOLDERS[topFolderOf(from)] ?? []))
    .map(({ from, to }) => `${from} imports ${to}, which ${topFolderOf(from)}/ may not`);
}

/** The page stays small: no schema library and no Node module is bundled with a contract. */
export function pageViolations(files: readonly File[]): Violation[] {
  return files
    .filter(({ path }) => path.startsWith('web/'))
    .flatMap(({ path, imports }) =>
      imports
        .filter(
          ({ typeOnly, specifier }) =>
            !typeOnly &&
            targetOf(specifier, path) !== null &&
            !startsWithAny(targetOf(specifier, path) ?? '', PAGE_VALUES),
        )
        .map(({ specifier }) => `${path} imports ${specifier} at run time; import its types only`),
    );
}

/** Providers don't import one another, and neither do the page's features. */
export function independenceViolations(files: readonly File[]): Violation[] {
  return Object.entries(INDEPENDENT).flatMap(([directory, shared]) => {
    const child = (name: string): string => name.slice(directory.length).split('/', 1)[0] as string;
    return edges(files)
      .filter(({ from, to }) => from.startsWith(directory) && to.startsWith(directory))
      .filter(({ from, to }) => child(from) !== child(to) && to !== shared)
      .map(({ from, to }) => `${from} imports ${to}; the parts of ${directory} don't import one another`);
  });
}

/** Lower layers don't import higher ones, not even types. */
export function layerViolations(files: readonly File[]): Violation[] {
  const layerOf = (name: string): number => LAYERS.findIndex((layer) => name.startsWith(layer));
  return edges(files)
    .filter(({ from, to }) => layerOf(from) >= 0 && layerOf(to) > layerOf(from))
    .map(({ from, to }) => `${from} imports ${to}, a higher layer; move what both need to the lower one`);
}

/** Pure files import pure files, and types. */
export function purityViolations(files: readonly File[]): Violation[] {
  return files
    .filter(({ path }) => startsWithAny(path, PURE))
    .flatMap(({ path, imports }) =>
      imports
        .filter(({ typeOnly }) => !typeOnly)
        .filter(({ specifier }) => {
          const to = targetOf(specifier, path);
          return to === null ? !PURE_PACKAGES.includes(specifier) : !startsWithAny(to, PURE);
        })
        .map(({ specifier }) => `${path} is pure and imports ${specifier}`),
    );
}

/** An import names an existing file with its extension, and uses the alias where there is one. */
export function specifierViolations(files: readonly File[]): Violation[] {
  const known = new Set(files.map(({ path }) => path));
  return edges(files).flatMap(({ from, to, specifier }) => {
    if (!known.has(to))
      return [`${from} imports ${specifier}, which doesn't exist; is its extension missing?`];
    if (specifier.startsWith('.') && ALIASED_FOLDERS.includes(topFolderOf(to)))
      return [`${from} imports ${specifier}; write #${to}`];
    return [];
  });
}

/** No import cycle. Type-only imports count: they tie the files together for readers too. */
export function cycles(files: readonly File[]): Violation[] {
  const next = new Map<string, string[]>();
  for (const { from, to } of edges(files)) next.set(from, [...(next.get(from) ?? []), to]);
  const found: Violation[] = [];
  const done = new Set<string>();
  const visit = (file: string, trail: readonly string[]): void => {
    const before = trail.indexOf(file);
    if (before >= 0) found.push([...trail.slice(before), file].join(' → '));
    if (before >= 0 || done.has(file)) return;
    for (const each of next.get(file) ?? []) visit(each, [...trail, file]);
    done.add(file);
  };
  for (const { path } of files) visit(path, []);
  return found;
}

/** No barrel files: they hide where a symbol is defined, and tie their users together in cycles. */
export function barrels(files: readonly File[]): Violation[] {
  return files
    .filter(({ path, onlyReexports }) => onlyReexports || /(^|\/)index\.tsx?$/.test(path))
    .map(({ path }) => `${path} is a barrel; import its symbols from where they are defined`);
}

/** No file or folder for leftovers. `web/lib` is a folder with subjects of its own. */
export function catchAlls(files: readonly File[]): Violation[] {
  return files
    .filter(({ path }) =>
      path
        .replace(/^web\/lib\//, 'web/')
        .split('/')
        .some((part) => CATCH_ALLS.has(part.replace(/\..*$/, ''))),
    )
    .map(({ path }) => `${path} has a generic name; name it by its subject`);
}

/** Files stay short enough to be read at once. */
export function longFiles(files: readonly File[]): Violation[] {
  return files
    .filter(({ path, lines }) => lines > linesMaxOf(path) && !isGenerated(path))
    .map(({ path, lines }) => `${path} has ${lines} lines; the maximum is ${linesMaxOf(path)}`);
}

/** Folders stay small enough to show the architecture. */
export function largeFolders(files: readonly File[]): Violation[] {
  const folders = Map.groupBy(
    files.filter(({ path }) => !path.startsWith('test/fixtures/')),
    ({ path }) => path.slice(0, path.lastIndexOf('/')),
  );
  return [...folders]
    .filter(([, members]) => members.length > FOLDER_FILES_MAX)
    .map(([folder, members]) => `${folder} has ${members.length} files; the maximum is ${FOLDER_FILES_MAX}`);
}

/** Lines fit beside one another in a review. */
export function wideLines(files: readonly File[]): Violation[] {
  return files
    .filter(({ path }) => /\.(tsx?|sql|css)$/.test(path) && !isGenerated(path))
    .flatMap(({ path, text }) =>
      text
        .split('\n')
        .flatMap((line, index) =>
          line.length > COLUMNS_MAX
            ? [`${path}:${index + 1} has ${line.length} columns; the maximum is ${COLUMNS_MAX}`]
            : [],
        ),
    );
}

/** Services take it from db/node-http.ts: an import of it loads more than a start needs. */
export function httpImports(files: readonly File[]): Violation[] {
  return files
    .filter(({ path }) => ['db', 'server', 'worker'].includes(topFolderOf(path)))
    .filter(({ imports }) =>
      imports.some(({ specifier, typeOnly }) => specifier === 'node:http' && !typeOnly),
    )
    .map(({ path }) => `${path} imports node:http`);
}

/** Services log through their logger, which redacts secrets. */
export function consoleUses(files: readonly File[]): Violation[] {
  return files
    .filter(({ path, usesConsole }) => usesConsole && ['db', 'server', 'worker'].includes(topFolderOf(path)))
    .map(({ path }) => `${path} uses console`);
}
