import { describe, expect, it } from 'vitest';
import { describeApi } from '#server/openapi/document.ts';
import { referencePage } from '#server/openapi/reference.ts';
import { siteFiles, sourcePages } from '../../../web/docs-site/plugin.ts';
import { pageHtml, renderPage } from '../../../web/docs-site/render.ts';
import { listApiRoutes } from '../../layout/api-routes.ts';

const sources = sourcePages();
const pages = sources.map((page) => renderPage(page, sources));
const html = new Map(pages.map((page) => [page.name, pageHtml(page, pages)]));
const document = describeApi(listApiRoutes());
const reference = referencePage(document);

/** The addresses that an attribute of the pages has. */
const valuesOf = (text: string, attribute: string): string[] =>
  [...text.matchAll(new RegExp(`\\s${attribute}="([^"]*)"`, 'g'))].map(([, value]) => value as string);

describe('the documentation as a site', () => {
  it('has a page for each page of the repository, which the navigation of every page lists', () => {
    expect(pages.length).toBeGreaterThan(40);
    for (const text of html.values())
      for (const { name } of pages) expect(text).toContain(`href="${name}.html"`);
  });

  it('has links to existing pages and sections only', () => {
    const anchors = new Map(pages.map(({ name, headings }) => [name, headings.map(({ anchor }) => anchor)]));
    const broken = pages.flatMap(({ name, html: text }) =>
      valuesOf(text, 'href')
        .filter((href) => !/^https?:|^mailto:/.test(href))
        .filter((href) => {
          const [place = '', anchor] = href.split('#');
          const target = place === '' ? name : place.replace(/\.html$/, '');
          return !(anchors.get(target) && (anchor === undefined || anchors.get(target)?.includes(anchor)));
        })
        .map((href) => `${name}: ${href}`),
    );
    expect(broken).toEqual([]);
  });

  it('loads nothing from elsewhere, and has neither inline scripts nor inline styles', () => {
    for (const text of [...html.values(), reference]) {
      expect(valuesOf(text, 'src').filter((src) => !siteFiles().has(src))).toEqual([]);
      expect(text).not.toMatch(/<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+="/);
      expect([...text.matchAll(/<link [^>]*href="([^"]*)"/g)].map(([, href]) => href)).toEqual([
        'icon.svg',
        'site.css',
      ]);
    }
  });

  it('can be searched for every section by its words', () => {
    const sections = pages.flatMap((page) => page.sections);
    expect(sections.length).toBeGreaterThan(300);
    expect(sections.find(({ page, heading }) => page === 'limits' && heading !== '')?.text).not.toBe('');
    for (const { text } of sections) expect(text).not.toMatch(/<!--|\]\(/);
  });

  it('shows every operation and schema of the OpenAPI document', () => {
    for (const item of Object.values(document.paths))
      for (const { operationId } of Object.values(item)) expect(reference).toContain(`id="${operationId}"`);
    const targets = valuesOf(reference, 'href').filter((href) => href.startsWith('#'));
    const ids = new Set(valuesOf(reference, 'id'));
    expect(targets.filter((href) => !ids.has(href.slice(1)))).toEqual([]);
  });
});
