import { type File, targetOf } from './source.ts';

/** One breach of a rule: where, and what to do about it. */
export type Breach = string;

/** Where the imports of each room may lead: paths or beginnings of paths. */
export const ROOMS: Record<string, readonly string[]> = {
  db: ['db/'],
  server: ['db/', 'server/'],
  worker: ['db/', 'worker/'],
  web: [
    'db/alerts/alerts.ts',
    'db/events/parts.ts',
    'db/events/events.ts',
    'db/fold/',
    'db/limits/limits.ts',
    'db/limits/meters.ts',
    'db/money.ts',
    'db/projections/buckets.ts',
    'db/events/upstream-events.ts',
    'db/limits/windows.ts',
    'server/contract/',
    'web/',
  ],
  bench: [''],
  test: [''],
};

/**
 * What the page takes from other rooms at run time; of all else it may know the types, which weigh nothing.
 */
const PAGE_VALUES = [
  'db/limits/meters.ts',
  'db/money.ts',
  'db/projections/buckets.ts',
  'server/contract/filter.ts',
  'server/contract/live-protocol.ts',
  'web/',
];

/** Rooms that others import by a `#` name, and use it within themselves too: one spelling per file. */
const NAMED_ROOMS = ['db', 'server'];

/** Directories whose children know nothing of one another; a file named here is what they share. */
const STRANGERS: Record<string, string | null> = {
  'server/providers/': 'server/providers/provider.ts',
  'web/features/': null,
};

/** What an auditor reads, and decisions: they take everything as data and import nothing that acts. */
const PURE = [
  'db/assert-increasing.ts',
  'db/assert-increasing.ts',
  'db/events/codes.ts',
  'db/events/parts.ts',
  'db/events/subjects.ts',
  'db/events/events.ts',
  'db/fold/',
  'db/limits/limits.ts',
  'db/limits/meters.ts',
  'db/events/log-events.ts',
  'db/events/member-events.ts',
  'db/money.ts',
  'db/projections/buckets.ts',
  'db/projections/outcomes.ts',
  'db/events/streams.ts',
  'db/events/upstream-events.ts',
  'db/limits/windows.ts',
  'server/decide/',
];
const PURE_PACKAGES = ['zod'];

const CATCH_ALLS = new Set(['utils', 'util', 'types', 'lib', 'helpers', 'helper', 'common', 'misc']);

/** The length of a file is a guide: tests hold tables of cases and may be longer. */
const LINES_MAX = 400;
const TEST_LINES_MAX = 500;

/** What no person writes: recorded data, the lock file, the snapshots and types of the schema. */
const isGenerated = (path: string): boolean =>
  path.startsWith('test/fixtures/') ||
  path.endsWith('package-lock.json') ||
  path === 'db/schema/snapshot.sql' ||
  path === 'db/schema/tables.ts' ||
  path.startsWith('db/schema/released/');

const linesMaxOf = (path: string): number => (path.endsWith('.test.ts') ? TEST_LINES_MAX : LINES_MAX);

const begins = (name: string, beginnings: readonly string[]): boolean =>
  beginnings.some((each) => name.startsWith(each));
const roomOf = (name: string): string => name.split('/', 1)[0] as string;

/** Every import of a file, with the file it means; packages are left out. */
function edges(files: readonly File[]): { from: string; to: string; specifier: string }[] {
  return files.flatMap(({ path, imports }) =>
    imports.flatMap(({ specifier }) => {
      const to = targetOf(specifier, path);
      return to === null ? [] : [{ from: path, to, specifier }];
    }),
  );
}

/** A room imports only the rooms that the house allows it. */
export function roomBreaches(files: readonly File[]): Breach[] {
  return edges(files)
    .filter(({ from, to }) => !begins(to, ROOMS[roomOf(from)] ?? []))
    .map(({ from, to }) => `${from} imports ${to}, which the room ${roomOf(from)} may not`);
}

/** The page stays light: no schema library and no Node come along with a contract. */
export function pageBreaches(files: readonly File[]): Breach[] {
  return files
    .filter(({ path }) => path.startsWith('web/'))
    .flatMap(({ path, imports }) =>
      imports
        .filter(
          ({ typeOnly, specifier }) =>
            !typeOnly &&
            targetOf(specifier, path) !== null &&
            !begins(targetOf(specifier, path) ?? '', PAGE_VALUES),
        )
        .map(({ specifier }) => `${path} imports ${specifier} at run time; import its types only`),
    );
}

/** Leaves of the same kind don't import one another. */
export function strangerBreaches(files: readonly File[]): Breach[] {
  return Object.entries(STRANGERS).flatMap(([directory, shared]) => {
    const child = (name: string): string => name.slice(directory.length).split('/', 1)[0] as string;
    return edges(files)
      .filter(({ from, to }) => from.startsWith(directory) && to.startsWith(directory))
      .filter(({ from, to }) => child(from) !== child(to) && to !== shared)
      .map(({ from, to }) => `${from} imports ${to}; those in ${directory} don't import one another`);
  });
}

/** Pure files import pure files, and types. */
export function purityBreaches(files: readonly File[]): Breach[] {
  return files
    .filter(({ path }) => begins(path, PURE))
    .flatMap(({ path, imports }) =>
      imports
        .filter(({ typeOnly }) => !typeOnly)
        .filter(({ specifier }) => {
          const to = targetOf(specifier, path);
          return to === null ? !PURE_PACKAGES.includes(specifier) : !begins(to, PURE);
        })
        .map(({ specifier }) => `${path} is pure and imports ${specifier}`),
    );
}

/** An import names a file that is there, with its ending, and spells it as the house does. */
export function addressBreaches(files: readonly File[]): Breach[] {
  const known = new Set(files.map(({ path }) => path));
  return edges(files).flatMap(({ from, to, specifier }) => {
    if (!known.has(to))
      return [`${from} imports ${specifier}, and there is no such file; is its ending missing?`];
    if (specifier.startsWith('.') && NAMED_ROOMS.includes(roomOf(to)))
      return [`${from} imports ${specifier}; write #${to}`];
    return [];
  });
}

/** No file imports itself by any way round; type-only imports count, for they tie the readers too. */
export function cycles(files: readonly File[]): Breach[] {
  const next = new Map<string, string[]>();
  for (const { from, to } of edges(files)) next.set(from, [...(next.get(from) ?? []), to]);
  const found: Breach[] = [];
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

/** A barrel hides where things live, and ties its users together in cycles. */
export function barrels(files: readonly File[]): Breach[] {
  return files
    .filter(({ path, onlyReexports }) => onlyReexports || /(^|\/)index\.tsx?$/.test(path))
    .map(({ path }) => `${path} is a barrel; import what it passes on from where it lives`);
}

/** No file or directory takes in whatever has no place. `web/lib` is a room's own part, not a file. */
export function catchAlls(files: readonly File[]): Breach[] {
  return files
    .filter(({ path }) =>
      path
        .replace(/^web\/lib\//, 'web/')
        .split('/')
        .some((part) => CATCH_ALLS.has(part.replace(/\..*$/, ''))),
    )
    .map(({ path }) => `${path} is named for anything; name it for what it holds`);
}

/** One page, one thought. Fixtures are data. */
export function longFiles(files: readonly File[]): Breach[] {
  return files
    .filter(({ path, lines }) => lines > linesMaxOf(path) && !isGenerated(path))
    .map(({ path, lines }) => `${path} has ${lines} lines; ${linesMaxOf(path)} are the most`);
}

/** What the service says goes through its logger, which knows what must not be told. */
export function consoleUses(files: readonly File[]): Breach[] {
  return files
    .filter(({ path, usesConsole }) => usesConsole && ['db', 'server', 'worker'].includes(roomOf(path)))
    .map(({ path }) => `${path} uses console`);
}
