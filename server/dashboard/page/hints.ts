/** The build's own list of what each source became, as Vite writes it. */
export type BuildList = Readonly<
  Record<string, { file: string; imports?: readonly string[]; isEntry?: boolean }>
>;

const ENTRY = 'index.html';
/** Chunks that every signed-in page needs. */
const INSIDE = ['lib/api/query-client.ts', 'lib/api/session.ts', 'shell.tsx'];

/**
 * The files that a page needs besides those in its HTML. Sent as preload hints, they load in parallel rather
 * than one after the other. Pure.
 * @param path as requested, such as `/admin/plans`.
 * @returns the value of a Link header; null for an unknown path.
 */
export function hintsFor(list: BuildList, path: string): string | null {
  const name = path === '/' ? 'overview' : path.slice(path.lastIndexOf('/') + 1);
  const inside = `features/${name}/page.tsx`;
  const door = `features/sign-in/${name}-page.tsx`;
  const sources = inside in list ? [...INSIDE, inside] : door in list ? [door] : [];
  if (sources.length === 0) return null;
  const known = filesOf(list, [ENTRY]);
  const wanted = [...filesOf(list, sources)].filter((file) => !known.has(file));
  // The first that every page inside asks.
  const asked = inside in list ? ['</api/v1/me>; rel=preload; as=fetch; crossorigin'] : [];
  return [...asked, ...wanted.map((file) => `</${file}>; rel=modulepreload; crossorigin`)].join(', ');
}

/** What these sources became, with all that they import from the start. */
function filesOf(list: BuildList, sources: readonly string[]): Set<string> {
  const files = new Set<string>();
  const visit = (source: string): void => {
    const built = list[source];
    if (built === undefined || files.has(built.file)) return;
    files.add(built.file);
    for (const each of built.imports ?? []) visit(each);
  };
  for (const source of sources) visit(source);
  return files;
}
