import axe, { type AxeResults } from 'axe-core';
import type { Page } from 'playwright-core';

/** Whether all of it is looked at, or only what another theme may change. */
type Depth = 'all' | 'colours';
const RULES = {
  all: '',
  colours: ', runOnly: { type: "rule", values: ["color-contrast", "link-in-text-block"] }',
} as const;

/** What axe finds on a page as it stands: one line each, with the rule and the element. */
export async function violations(page: Page, depth: Depth = 'all'): Promise<string[]> {
  // Through the debugger, since the page's own policy lets no script in.
  await page.evaluate(`window.axe === undefined && (() => { ${axe.source} })()`);
  // All that was found in order is many times as much, and is left in the page.
  const found = await page.evaluate<AxeResults['violations']>(
    `axe.run(document, { resultTypes: ["violations"]${RULES[depth]} }).then(({ violations }) => violations)`,
  );
  return found.flatMap(({ id, help, nodes }) =>
    nodes.map(({ target }) => `${id} (${help}): ${target.join(' ')}`),
  );
}
