import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { RelayedRoute } from '#db/limits/limits.ts';
import type { Usage } from '#db/money.ts';
import type { ReplyFacts } from '#server/wire/reply-facts.ts';

/**
 * Replies in the wire formats of providers, made after the documentation of each: `NAME.json` and `NAME.sse`
 * are the same reply in both forms, and `NAME.expected.json` has the usage and the facts to read.
 */
export const COST_FOLDER = path.join(import.meta.dirname, '../../fixtures/cost');

export type CostExpectation = {
  /** The protocol's own reader, or the package that the provider is reached through. */
  provider: 'openai' | 'anthropic' | `@ai-sdk/${string}`;
  route: RelayedRoute;
  /** Where the provider documents the format. */
  documented: string[];
  /** The model that is asked for, where the reply doesn't name one. */
  model?: string;
  /** Headers of the reply. */
  headers?: Record<string, string>;
  usage: Usage;
  /** Those that the reply has. */
  facts: Partial<ReplyFacts>;
};

export type CostFixture = CostExpectation & { name: string; forms: ('json' | 'sse')[] };

export const COST_FIXTURES: readonly CostFixture[] = readdirSync(COST_FOLDER)
  .filter((file) => file.endsWith('.expected.json'))
  .toSorted()
  .map((file) => {
    const name = file.slice(0, -'.expected.json'.length);
    const forms = (['json', 'sse'] as const).filter((form) =>
      readdirSync(COST_FOLDER).includes(`${name}.${form}`),
    );
    const expected = JSON.parse(readFileSync(path.join(COST_FOLDER, file), 'utf8')) as CostExpectation;
    return { ...expected, name, forms };
  });

export const costFixture = (name: string, form: 'json' | 'sse'): Buffer =>
  readFileSync(path.join(COST_FOLDER, `${name}.${form}`));
