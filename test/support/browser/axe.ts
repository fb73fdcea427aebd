import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { AxeResults } from 'axe-core';
import type { Page } from 'playwright-core';

const FILE = path.join(import.meta.dirname, '../../../node_modules/axe-core/axe.min.js');
/** Its half a megabyte is read once, and sent once to each document. */
let source: string | null = null;

/** All rules, or only those that depend on the theme. */
type Depth = 'all' | 'colours';
const RULES = {
  all: '',
  colours: ', runOnly: { type: "rule", values: ["color-contrast", "link-in-text-block"] }',
} as const;

/** The axe violations of a page: one line each, with the rule and the element. */
export async function violations(page: Page, depth: Depth = 'all'): Promise<string[]> {
  // By the debugger, since the page's content security policy blocks scripts.
  if (!(await page.evaluate<boolean>('window.axe !== undefined')))
    await page.evaluate((source ??= readFileSync(FILE, 'utf8')));
  // Passed rules are much larger and are not returned.
  const found = await page.evaluate<AxeResults['violations']>(
    `axe.run(document, { resultTypes: ["violations"]${RULES[depth]} }).then(({ violations }) => violations)`,
  );
  return found.flatMap(({ id, help, nodes }) =>
    nodes.map(({ target }) => `${id} (${help}): ${target.join(' ')}`),
  );
}
