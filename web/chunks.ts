/** The build's module graph. Only static imports are listed. */
type Graph = { getModuleInfo(id: string): { readonly importedIds: readonly string[] } | null };

const SIGN_IN = ['main.tsx', 'features/sign-in/sign-in-page.tsx'];
const SIGNED_IN = ['shell.tsx', 'lib/api/query-client.ts', 'lib/api/session.ts'];
/** Modules shared by this many pages go into the common chunk. */
const SHARED_BY = 4;

/**
 * Assigns modules to chunks. By default the build makes one chunk per set of modules used by the same pages:
 * dozens of a few hundred bytes, each with its own request. Pure.
 * @param web the directory of the dashboard's sources.
 * @param pages the pages behind sign-in, relative to `web`.
 * @returns the chunk's name, or null to let the build decide.
 */
export function chunksOf(web: string, pages: readonly string[]): (id: string, graph: Graph) => string | null {
  let found: { signIn: Set<string>; signedIn: Set<string> } | undefined;
  return (id, graph) => {
    const reached = (...names: string[]): Set<string> =>
      reachedFrom(
        names.map((name) => `${web}/${name}`),
        graph,
      );
    found ??= {
      signIn: reached(...SIGN_IN),
      signedIn: new Set([
        ...SIGNED_IN.map((name) => `${web}/${name}`),
        ...reached(...SIGNED_IN),
        ...shared(pages.map((name) => reached(name))),
      ]),
    };
    if (found.signIn.has(id)) return 'sign-in';
    return found.signedIn.has(id) ? 'signed-in' : null;
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
