/** The build's own list of what each source became, as Vite writes it. */
export type BuildList = Readonly<
  Record<string, { file: string; imports?: readonly string[]; isEntry?: boolean }>
>;

const ENTRY = 'index.html';
/** What all pages of somebody who is signed in are made of. */
const INSIDE = ['lib/api/query-client.ts', 'lib/api/session.ts', 'shell.tsx'];

/**
 * Which files a page needs besides those that its HTML names. Told along with the HTML, they are all
 * fetched at once, instead of each when the one before it has come and run. Pure.
 * @param path as it was asked for, such as `/admin/plans`.
 * @returns the value of a Link header; null where nothing is known of the path.
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
  const asked = inside in list ? ['</api/me>; rel=preload; as=fetch; crossorigin'] : [];
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
