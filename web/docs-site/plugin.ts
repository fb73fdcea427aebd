import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { Plugin } from 'vite';
import { pageHtml, renderPage, type SourcePage } from './render.ts';

/**
 * Emits the documentation as static pages below `docs/`, with a search index, so that each installation has
 * the pages of its own version and loads nothing from elsewhere.
 */

const ROOT = path.join(import.meta.dirname, '../..');
/** Pages outside `docs/`, by the name of the built page. */
const OTHERS: Readonly<Record<string, string>> = {
  'README.md': 'quick-start',
  'ARCHITECTURE.md': 'architecture',
  'CONTRIBUTING.md': 'contributing',
  'SECURITY.md': 'security',
  'CHANGELOG.md': 'changelog',
  'deploy/README.md': 'deploy',
  'bench/README.md': 'benchmarks',
};

/** Every page, with its path in the repository and the name of its built page. */
export function sourcePages(): SourcePage[] {
  const docs = readdirSync(path.join(ROOT, 'docs')).filter((name) => name.endsWith('.md'));
  const named = [
    ...docs.map((name) => [`docs/${name}`, name === 'README.md' ? 'index' : name.slice(0, -3)] as const),
    ...Object.entries(OTHERS),
  ];
  return named.map(([source, name]) => ({
    source,
    name,
    markdown: readFileSync(path.join(ROOT, source), 'utf8'),
  }));
}

/** Every file of the site, by its name; the reference of the API is made by the server. */
export function siteFiles(): Map<string, string | Uint8Array> {
  const sources = sourcePages();
  const pages = sources.map((page) => renderPage(page, sources));
  const images = readdirSync(path.join(ROOT, 'docs')).filter((name) => name.endsWith('.png'));
  return new Map<string, string | Uint8Array>([
    ...pages.map((page) => [`${page.name}.html`, pageHtml(page, pages)] as const),
    ['search.json', JSON.stringify(pages.flatMap(({ sections }) => sections))],
    ...['site.css', 'site.js'].map((name) => [name, read(import.meta.dirname, name)] as const),
    ...['theme.js', 'icon.svg'].map((name) => [name, read(ROOT, 'web/public', name)] as const),
    ...images.map((name) => [name, read(ROOT, 'docs', name)] as const),
  ]);
}

const read = (...parts: string[]): Uint8Array => readFileSync(path.join(...parts));

export function docsSite(): Plugin {
  return {
    name: 'docs-site',
    apply: 'build',
    generateBundle() {
      for (const [name, source] of siteFiles())
        this.emitFile({ type: 'asset', fileName: `docs/${name}`, source });
    },
  };
}
