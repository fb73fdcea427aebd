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

/**
 * The first running animation or transition, as a violation: pages are opened with reduced motion. During a
 * transition, axe would check the colors before it, or a mixture.
 */
const MOTION = `document.getAnimations().slice(0, 1).map((first) => {
  const { target, pseudoElement } = first.effect;
  const property = first.transitionProperty ?? first.animationName;
  return 'reduced-motion (Pages must not animate with reduced motion): ' + property + ' of ' +
    target.outerHTML.slice(0, 100) + (pseudoElement ?? '');
})`;

/** The axe violations of a page: one line each, with the rule and the element. */
export async function violations(page: Page, depth: Depth = 'all'): Promise<string[]> {
  // By the debugger, since the page's content security policy blocks scripts.
  if (!(await page.evaluate<boolean>('window.axe !== undefined')))
    await page.evaluate((source ??= readFileSync(FILE, 'utf8')));
  // Both in one task, so that no frame comes between them. Passed rules are much larger and are not returned.
  const { motion, found } = await page.evaluate<{ motion: string[]; found: AxeResults['violations'] }>(
    `{
      const motion = ${MOTION};
      axe.run(document, { resultTypes: ["violations"]${RULES[depth]} })
        .then(({ violations }) => ({ motion, found: violations }))
    }`,
  );
  const faults = found.flatMap(({ id, help, nodes }) =>
    nodes.map(({ target }) => `${id} (${help}): ${target.join(' ')}`),
  );
  return [...motion, ...faults];
}
