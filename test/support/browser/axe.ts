import axe, { type AxeResults } from 'axe-core';
import type { Page } from 'playwright-core';

/** All rules, or only those that depend on the theme. */
type Depth = 'all' | 'colours';
const RULES = {
  all: '',
  colours: ', runOnly: { type: "rule", values: ["color-contrast", "link-in-text-block"] }',
} as const;

/** The axe violations of a page: one line each, with the rule and the element. */
export async function violations(page: Page, depth: Depth = 'all'): Promise<string[]> {
  // By the debugger, since the page's content security policy blocks scripts.
  await page.evaluate(`window.axe === undefined && (() => { ${axe.source} })()`);
  // Passed rules are much larger and are not returned.
  const found = await page.evaluate<AxeResults['violations']>(
    `axe.run(document, { resultTypes: ["violations"]${RULES[depth]} }).then(({ violations }) => violations)`,
  );
  return found.flatMap(({ id, help, nodes }) =>
    nodes.map(({ target }) => `${id} (${help}): ${target.join(' ')}`),
  );
}
