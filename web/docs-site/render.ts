import path from 'node:path';
import { Marked, type Tokens } from 'marked';
import { docsPage, escapeHtml } from '#server/contract/docs-site/docs-page.ts';
import { GROUPS } from './groups.ts';

/** Markdown of the repository as pages of the documentation. Pure. */

export type SourcePage = { source: string; name: string; markdown: string };
export type Section = { page: string; title: string; anchor: string; heading: string; text: string };
export type RenderedPage = {
  name: string;
  title: string;
  html: string;
  headings: { level: number; anchor: string; text: string }[];
  sections: Section[];
};

const TEXT_MAX = 2_000;

/** @param all the pages that links may lead to. */
export function renderPage({ source, name, markdown }: SourcePage, all: readonly SourcePage[]): RenderedPage {
  const anchors = new Map<string, number>();
  const headings: RenderedPage['headings'] = [];
  const sections: Section[] = [];
  const marked = new Marked({ gfm: true });
  const plainOf = (raw: string): string =>
    raw
      .replace(/<!--.*?-->/gs, '')
      .replace(/\]\([^)]*\)/g, ']')
      .replace(/[`*_[\]|#>]|-{3,}/g, ' ')
      .replace(/\s+/g, ' ')
      .trim();
  marked.use({
    renderer: {
      html: ({ text: raw }: Tokens.HTML | Tokens.Tag) => (raw.startsWith('<!--') ? '' : escapeHtml(raw)),
      heading({ depth, tokens, text: raw }: Tokens.Heading) {
        const plain = raw.replace(/[`*]/g, '').replace(/\]\([^)]*\)|\[/g, '');
        const anchor = anchorOf(plain, anchors);
        headings.push({ level: depth, anchor, text: plain });
        const inner = this.parser.parseInline(tokens);
        const link = `<a class="anchor" href="#${anchor}" aria-label="Link to this section">#</a>`;
        return `<h${depth} id="${anchor}">${inner}${link}</h${depth}>\n`;
      },
      link({ href, tokens, text }: Tokens.Link) {
        const target = linkOf(href, source, all);
        // Readers of the repository see a file's name, those of the site the title of its page.
        const title = /^[\w/-]+\.md$/.test(text) ? titleOf(href, source, all) : null;
        const inner = title === null ? this.parser.parseInline(tokens) : escapeHtml(title);
        return target === null ? inner : `<a href="${escapeHtml(target)}">${inner}</a>`;
      },
      image: ({ href, text: alt }: Tokens.Image) =>
        `<img src="${escapeHtml(path.basename(href))}" alt="${escapeHtml(alt)}" loading="lazy">`,
      // What scrolls must be reachable by the keyboard.
      code: ({ text: raw }: Tokens.Code) => `<pre tabindex="0"><code>${escapeHtml(raw)}</code></pre>\n`,
      table(token: Tokens.Table) {
        const cell = ({ tokens }: Tokens.TableCell, tag: string): string =>
          `<${tag}>${this.parser.parseInline(tokens)}</${tag}>`;
        // An empty heading is not a heading.
        const row = (cells: readonly Tokens.TableCell[], tag: string): string =>
          `<tr>${cells.map((each) => cell(each, each.text === '' ? 'td' : tag)).join('')}</tr>`;
        const head = token.header.every((each) => each.text === '')
          ? ''
          : `<thead>${row(token.header, 'th')}</thead>`;
        const rows = token.rows.map((each) => row(each, 'td')).join('');
        return `<div class="table" tabindex="0"><table>${head}<tbody>${rows}</tbody></table></div>\n`;
      },
    },
  });
  const html = marked.parse(markdown) as string;
  const title = headings.find(({ level }) => level === 1)?.text ?? name;
  const parts = markdown
    .replace(/```.*?```/gs, (code) => code.replace(/^#/gm, ' '))
    .split(/^#{1,3} .*$/m)
    .slice(1);
  for (const [index, { anchor, text: heading }] of headings.filter(({ level }) => level <= 3).entries())
    sections.push({
      page: name,
      title,
      anchor,
      heading,
      text: plainOf(parts[index] ?? '').slice(0, TEXT_MAX),
    });
  return { name, title, html, headings, sections };
}

/** As GitHub makes them, so that links between pages hold in both places. */
function anchorOf(text: string, seen: Map<string, number>): string {
  const base = text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replace(/\s/g, '-');
  const count = seen.get(base) ?? 0;
  seen.set(base, count + 1);
  return count === 0 ? base : `${base}-${count}`;
}

/** The page that a link leads to; undefined: a file that isn't a page. */
function pageOf(href: string, source: string, all: readonly SourcePage[]): SourcePage | undefined {
  const [file = ''] = href.split('#');
  const target = path.posix.join(path.posix.dirname(source), file);
  return all.find((each) => each.source === target);
}

const titleOf = (href: string, source: string, all: readonly SourcePage[]): string | null =>
  /^# (.+)$/m.exec(pageOf(href, source, all)?.markdown ?? '')?.[1] ?? null;

/** Where a link of a page leads; null: to a file that isn't a page. */
function linkOf(href: string, source: string, all: readonly SourcePage[]): string | null {
  if (/^(https?:|mailto:|#)/.test(href)) return href;
  const page = pageOf(href, source, all);
  if (page === undefined) return null;
  const [, anchor] = href.split('#');
  return `${addressOf(page.name)}${anchor === undefined ? '' : `#${anchor}`}`;
}

/** Relative: the site can be at any path. */
const addressOf = (name: string): string => `${name}.html`;

/** A whole page, with the navigation of all. */
export function pageHtml(page: RenderedPage, all: readonly RenderedPage[]): string {
  const toc = page.headings.filter(({ level }) => level === 2);
  return docsPage({
    title: page.title,
    navigationLabel: 'Pages',
    navigation: navigation(page.name, all) + REFERENCE,
    main: `<article>${page.html}</article>`,
    aside:
      toc.length < 2
        ? ''
        : `<nav class="toc" aria-label="On this page"><h2>On this page</h2><ul>${toc
            .map(({ anchor, text }) => `<li><a href="#${anchor}">${escapeHtml(text)}</a></li>`)
            .join('')}</ul></nav>`,
  });
}

const REFERENCE =
  '<h2>Reference</h2><ul><li><a href="api-reference.html">API reference (OpenAPI)</a></li></ul>';

function navigation(current: string, all: readonly RenderedPage[]): string {
  const titles = new Map(all.map(({ name, title }) => [name, title]));
  const listed = new Set(GROUPS.flatMap(([, names]) => names));
  const rest = all.map(({ name }) => name).filter((name) => !listed.has(name) && name !== 'index');
  return [...GROUPS, ...(rest.length === 0 ? [] : ([['More', rest]] as const))]
    .map(
      ([title, names]) =>
        `<h2>${escapeHtml(title)}</h2><ul>${names
          .filter((name) => titles.has(name))
          .map((name) => {
            const mark = name === current ? ' aria-current="page"' : '';
            return `<li><a href="${addressOf(name)}"${mark}>${escapeHtml(titles.get(name) ?? name)}</a></li>`;
          })
          .join('')}</ul>`,
    )
    .join('');
}
