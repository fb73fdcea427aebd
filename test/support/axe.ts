import axe, { type AxeResults } from 'axe-core';
import type { Page } from 'playwright-core';

/** What axe finds on a page as it stands: one line each, with the rule and the element. */
export async function violations(page: Page): Promise<string[]> {
  // Through the debugger, since the page's own policy lets no script in.
  await page.evaluate(axe.source);
  const { violations: found } = await page.evaluate<AxeResults>('axe.run(document, { resultTypes: ["violations"] })');
  return found.flatMap(({ id, help, nodes }) => nodes.map(({ target }) => `${id} (${help}): ${target.join(' ')}`));
}
