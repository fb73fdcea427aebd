import { isDeepStrictEqual } from 'node:util';
import { HELLO, type To } from '../support/providers/flows.ts';
import type { PlainUpstream } from '../support/plain-upstream.ts';

/** Counts of tokens and embeddings by Google's client, at Gemini's own API and translated. */

type Methods = {
  countTokens(request: object): Promise<{ totalTokens?: number }>;
  embedContent(request: object): Promise<{ embeddings?: { values?: number[] }[] }>;
};
/** What it got over one upstream; null: as it has to be. */
type Check = (models: Methods, model: string, isNative: boolean) => Promise<string | null>;

const COUNTED = 31;
const VECTORS = [
  [0.5, -0.25],
  [0.125, 1],
];
/** The replies of Gemini's own API. */
export const googleReply: PlainUpstream['reply'] = ({ path }) => ({
  body: JSON.stringify(
    path.endsWith(':countTokens')
      ? { totalTokens: COUNTED }
      : { embeddings: VECTORS.map((values) => ({ values })), usageMetadata: { promptTokenCount: 7 } },
  ),
});

const CHECKS: Readonly<Record<string, Check>> = {
  async countTokens(models, model, isNative) {
    const { totalTokens } = await models.countTokens({ model, contents: HELLO });
    const isRight = isNative ? totalTokens === COUNTED : totalTokens !== undefined && totalTokens > 0;
    return isRight ? null : `${totalTokens ?? 'no'} tokens`;
  },
  async embedContent(models, model, isNative) {
    const { embeddings = [] } = await models.embedContent({ model, contents: [HELLO, HELLO] });
    const vectors = embeddings.map(({ values }) => values);
    const isRight = isNative
      ? isDeepStrictEqual(vectors, VECTORS)
      : vectors.length === 2 && vectors.every((values) => values?.every(Number.isFinite));
    return isRight ? null : `other vectors: ${JSON.stringify(vectors)}`;
  },
};
export const GOOGLE_METHODS = Object.keys(CHECKS);

/**
 * @param at the models that are called, and whether their upstream has Gemini's API.
 * @returns what failed, by method and model.
 */
export async function googleFaults(
  modelsOf: (to: To) => Promise<Methods>,
  to: To & { wrongKey: string },
  at: Readonly<Record<string, readonly { model: string; isNative: boolean }[]>>,
): Promise<Map<string, string>> {
  const failed = new Map<string, string>();
  const models = await modelsOf(to);
  const unknown = await modelsOf({ ...to, key: to.wrongKey });
  for (const [method, check] of Object.entries(CHECKS))
    for (const { model, isNative } of at[method] ?? []) {
      const fault = await check(models, model, isNative).catch(String);
      if (fault !== null) failed.set(`${method} of ${model}`, fault);
      const refused = await check(unknown, model, isNative).then(() => 'no error', String);
      if (!refused.includes('401')) failed.set(`${method} of ${model} with a wrong key`, refused);
    }
  return failed;
}
