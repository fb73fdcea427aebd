import { expect, test } from 'vitest';
import { type BuildList, hintsFor } from '#server/dashboard/page/hints.ts';

const LIST: BuildList = {
  'index.html': { file: 'assets/index-1.js', imports: ['_react-1.js'], isEntry: true },
  '_react-1.js': { file: 'assets/react-1.js' },
  'lib/api/query-client.ts': { file: 'assets/query-1.js', imports: ['_react-1.js'] },
  'lib/api/session.ts': { file: 'assets/session-1.js', imports: ['lib/api/query-client.ts'] },
  'shell.tsx': { file: 'assets/shell-1.js', imports: ['index.html', '_table-1.js'] },
  '_table-1.js': { file: 'assets/table-1.js', imports: ['_react-1.js'] },
  'features/overview/page.tsx': { file: 'assets/overview-1.js', imports: ['_table-1.js'] },
  'features/plans/page.tsx': { file: 'assets/plans-1.js', imports: ['_table-1.js'] },
  'features/sign-in/sign-in-page.tsx': { file: 'assets/sign-in-1.js', imports: ['_react-1.js'] },
};

const filesIn = (hints: string | null): string[] =>
  [...(hints ?? '').matchAll(/<\/assets\/(\S+)>; rel=modulepreload; crossorigin/g)].map(
    ([, file]) => file as string,
  );

test.each([
  ['/', ['query-1.js', 'session-1.js', 'shell-1.js', 'table-1.js', 'overview-1.js']],
  ['/admin/plans', ['query-1.js', 'session-1.js', 'shell-1.js', 'table-1.js', 'plans-1.js']],
  ['/sign-in', ['sign-in-1.js']],
])('a page is told with all that it needs and its HTML does not name: %s', (path, files) => {
  expect(filesIn(hintsFor(LIST, path))).toEqual(files);
});

test('who is signed in is asked along with a page that needs to know, and with no other', () => {
  const isAsked = (path: string): boolean =>
    hintsFor(LIST, path)?.includes('</api/v1/me>; rel=preload; as=fetch; crossorigin') === true;
  expect(['/', '/admin/plans', '/sign-in'].map(isAsked)).toEqual([true, true, false]);
});

test('preloads nothing for an unknown page, or one built without a list', () => {
  for (const path of ['/no-such-page', '/constructor', '/%00', '//']) expect(hintsFor(LIST, path)).toBeNull();
  expect(hintsFor({}, '/')).toBeNull();
});
