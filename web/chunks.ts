/** The build's module graph. Only static imports are listed. */
type Graph = { getModuleInfo(id: string): { readonly importedIds: readonly string[] } | null };

const SIGN_IN = ['main.tsx', 'features/sign-in/sign-in-page.tsx'];
const SIGNED_IN = ['shell.tsx', 'lib/api/query-client.ts', 'lib/api/session.ts'];
/** The first page after sign-in: of the shared modules, every page loads its own only. */
const FIRST_PAGE = 'features/overview/page.tsx';
/** Modules shared by this many pages go into a common chunk. */
const SHARED_BY = 4;

/** A group takes the dependencies of its modules too, unless one of a higher priority has them. */
export type ChunkGroup = { name: (id: string, graph: Graph) => Chunk | null; priority: number };
type Chunk = (typeof CHUNKS)[number];
/** Each needs those before it. */
const CHUNKS = ['sign-in', 'signed-in', 'shared'] as const;

/**
 * Assigns modules to chunks. By default the build makes one chunk per set of modules used by the same pages:
 * dozens of a few hundred bytes, each with its own request. Pure.
 * @param web the directory of the dashboard's sources.
 * @param pages the pages behind sign-in, relative to `web`.
 */
export function chunkGroups(web: string, pages: readonly string[]): ChunkGroup[] {
  let modules: Record<Chunk, Set<string>> | undefined;
  return CHUNKS.map((chunk, index) => ({
    name: (id, graph) => {
      modules ??= assign(web, pages, graph);
      return CHUNKS.find((each) => modules?.[each].has(id)) === chunk ? chunk : null;
    },
    priority: CHUNKS.length - index,
  }));
}

function assign(web: string, pages: readonly string[], graph: Graph): Record<Chunk, Set<string>> {
  const reached = (...names: string[]): Set<string> =>
    reachedFrom(
      names.map((name) => `${web}/${name}`),
      graph,
    );
  const common = shared(pages.map((name) => reached(name)));
  const ofFirst = reached(FIRST_PAGE);
  return {
    'sign-in': reached(...SIGN_IN),
    'signed-in': new Set([
      ...SIGNED_IN.map((name) => `${web}/${name}`),
      ...reached(...SIGNED_IN),
      ...common.filter((id) => ofFirst.has(id)),
    ]),
    shared: new Set(common),
  };
}

/** The static imports of the roots, transitively, without the roots themselves. */
function reachedFrom(roots: readonly string[], graph: Graph): Set<string> {
  const seen = new Set<string>();
  const visit = (id: string): void => {
    if (seen.has(id) || id.includes('node_modules')) return;
    seen.add(id);
    for (const each of graph.getModuleInfo(id)?.importedIds ?? []) visit(each);
  };
  for (const root of roots) visit(root);
  for (const root of roots) seen.delete(root);
  return seen;
}

function shared(pages: readonly Set<string>[]): string[] {
  const all = new Set(pages.flatMap((page) => [...page]));
  return [...all].filter((id) => pages.filter((page) => page.has(id)).length >= SHARED_BY);
}
