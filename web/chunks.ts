/** How the build knows what imports what; imports that are made later, when they are needed, don't count. */
type Graph = { getModuleInfo(id: string): { readonly importedIds: readonly string[] } | null };

const DOOR = ['main.tsx', 'features/sign-in/sign-in-page.tsx'];
const INSIDE = ['shell.tsx', 'lib/query-client.ts', 'lib/session.ts'];
/** What as many pages share comes along with the first of them. */
const SHARED_BY = 3;

/**
 * Decides which file a module goes into. Left to itself the build makes a file of each set of
 * modules that the same pages use: dozens of a few hundred bytes, each with a head and a round trip
 * of its own on the way to a phone. Pure.
 * @param web the directory of the page's sources.
 * @param pages those that are shown to somebody who is signed in, from there.
 * @returns the name of the file; null where the build may decide.
 */
export function chunksOf(web: string, pages: readonly string[]): (id: string, graph: Graph) => string | null {
  let found: { door: Set<string>; inside: Set<string> } | undefined;
  return (id, graph) => {
    const reached = (...names: string[]): Set<string> =>
      reachedFrom(
        names.map((name) => `${web}/${name}`),
        graph,
      );
    found ??= {
      door: reached(...DOOR),
      inside: new Set([...reached(...INSIDE), ...shared(pages.map((name) => reached(name)))]),
    };
    if (found.door.has(id)) return 'door';
    return found.inside.has(id) ? 'inside' : null;
  };
}

/**
 * What these import from the start, at any remove. Not they themselves: what begins a file is none that
 * others share.
 */
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
