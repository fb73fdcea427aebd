import { MODEL_NAME } from '#db/events/parts.ts';
import type { EventOf } from '#db/events/events.ts';
import type { Model } from '#db/fold/model.ts';
import type { ModelTerms } from '#db/events/upstream-events.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { sameTerms } from '#server/decide/terms.ts';

/** The valid targets of models. */
export type Reachable = {
  /** The names of all upstreams, including those configured by the environment. */
  upstreams: ReadonlySet<string>;
  /** All models, including retired ones. */
  models: Iterable<Model>;
  /** Whether some upstream lists a model of this name. */
  isListed: (model: string) => boolean;
};

/**
 * Defines the targets of a public model name, or replaces them; null if nothing changes.
 * @throws {DecisionError} when a target does not exist, or aliases would form a chain.
 */
export function defineModel(
  model: Model | undefined,
  command: { name: string; terms: ModelTerms; actor: string },
  reachable: Reachable,
): EventOf<'model.defined'> | null {
  const { name, terms, actor } = command;
  if (!MODEL_NAME.test(name))
    throw new DecisionError('invalid', 'A model name has 1 to 256 printable ASCII characters.');
  if (name.includes('*'))
    throw new DecisionError(
      'invalid',
      `"${name}" contains a *. Patterns belong to the models that an upstream lists; define one exact name.`,
    );
  if ('alias_of' in terms) checkAlias(name, terms.alias_of, reachable);
  else checkTargets(terms.targets, reachable);
  if (model?.state === 'active' && sameTerms(model.terms, terms)) return null;
  return { type: 'model.defined', model: name, terms, actor };
}

/**
 * Removes the definition of a model; null if it is retired already.
 * @throws {DecisionError} naming the aliases that would lose their target.
 */
export function retireModel(
  model: Model,
  { models, isListed }: Pick<Reachable, 'models' | 'isListed'>,
  actor: string,
): EventOf<'model.retired'> | null {
  if (model.state === 'retired') return null;
  const aliases = isListed(model.name) ? [] : aliasesOf(model.name, models);
  if (aliases.length > 0)
    throw new DecisionError(
      'not_allowed',
      `"${model.name}" has ${named(aliases)}. Retire ${aliases.length === 1 ? 'it' : 'them'} first.`,
    );
  return { type: 'model.retired', model: model.name, actor };
}

function checkTargets(
  targets: Extract<ModelTerms, { targets: unknown }>['targets'],
  { upstreams }: Reachable,
): void {
  const seen = new Set<string>();
  for (const { upstream, model } of targets) {
    if (!upstreams.has(upstream))
      throw new DecisionError('not_found', `There is no upstream named "${upstream}".`);
    const target = JSON.stringify([upstream, model]);
    if (seen.has(target))
      throw new DecisionError(
        'invalid',
        `Upstream "${upstream}" is listed twice for the same model. Add up their weights in one target.`,
      );
    seen.add(target);
  }
}

/** Rejects chains of aliases, so that the target of an alias is visible in its own definition. */
function checkAlias(name: string, of: string, { models, isListed }: Reachable): void {
  if (of === name) throw new DecisionError('invalid', `"${name}" can't be an alias of itself.`);
  const known = [...models];
  const meant = known.find((each) => each.name === of && each.state === 'active');
  if (meant && 'alias_of' in meant.terms)
    throw new DecisionError(
      'not_allowed',
      `"${of}" is itself an alias of "${meant.terms.alias_of}". Use that name instead.`,
    );
  if (!meant && !isListed(of))
    throw new DecisionError('not_found', `There is no model "${of}", and no upstream lists it.`);
  const aliases = aliasesOf(name, known);
  if (aliases.length > 0)
    throw new DecisionError(
      'not_allowed',
      `"${name}" can't become an alias: it has ${named(aliases)}, and an alias of an alias is not allowed.`,
    );
}

const aliasesOf = (name: string, models: Iterable<Model>): string[] =>
  [...models]
    .filter(({ state, terms }) => state === 'active' && 'alias_of' in terms && terms.alias_of === name)
    .map((each) => each.name);

const named = (aliases: readonly string[]): string =>
  `the ${aliases.length === 1 ? 'alias' : 'aliases'} ${aliases.map((each) => `"${each}"`).join(', ')}`;

/** The model that a command names. @throws {DecisionError} when it has no definition. */
export function requireModel<Found extends Pick<Model, 'state'>>(
  model: Found | undefined,
  name: string,
): Found {
  if (model?.state !== 'active')
    throw new DecisionError('not_found', `There is no definition of a model named "${name}".`);
  return model;
}
