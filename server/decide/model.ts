import { MODEL_NAME } from '#db/events/parts.ts';
import type { EventOf } from '#db/events/events.ts';
import type { Model } from '#db/fold/model.ts';
import type { ModelTerms } from '#db/events/upstream-events.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { sameTerms } from '#server/decide/terms.ts';

/** What a model's targets may name. */
export type Reachable = {
  /** The names of all upstreams, those of the environment among them. */
  upstreams: ReadonlySet<string>;
  /** All models, the retired ones too. */
  models: Iterable<Model>;
  /** Whether some upstream lists a model of this name. */
  isListed: (model: string) => boolean;
};

/**
 * Says where the calls of a public model name go, the first time or anew; null when they go there already.
 * @throws {DecisionError} when it would lead nowhere, or round in a circle.
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
      `"${name}" has a *: patterns stand with an upstream, as what it serves, and a model has one name.`,
    );
  if ('alias_of' in terms) checkAlias(name, terms.alias_of, reachable);
  else checkTargets(terms.targets, reachable);
  if (model?.state === 'active' && sameTerms(model.terms, terms)) return null;
  return { type: 'model.defined', model: name, terms, actor };
}

/**
 * Ends a model's own directions; null when it has none any more.
 * @throws {DecisionError} naming the aliases that would lead nowhere.
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
      `"${model.name}" is what ${named(aliases)} for: retire ${aliases.length === 1 ? 'that' : 'those'} first.`,
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
        `Upstream "${upstream}" is named twice for the same model: give one target the weight of both.`,
      );
    seen.add(target);
  }
}

/** One step and no more, so that whoever reads an alias sees where it leads. */
function checkAlias(name: string, of: string, { models, isListed }: Reachable): void {
  if (of === name) throw new DecisionError('invalid', `"${name}" can't be an alias of itself.`);
  const known = [...models];
  const meant = known.find((each) => each.name === of && each.state === 'active');
  if (meant && 'alias_of' in meant.terms)
    throw new DecisionError(
      'not_allowed',
      `"${of}" is an alias itself, of "${meant.terms.alias_of}": name that one.`,
    );
  if (!meant && !isListed(of))
    throw new DecisionError(
      'not_found',
      `There is no model "${of}", and no upstream lists one of this name.`,
    );
  const aliases = aliasesOf(name, known);
  if (aliases.length > 0)
    throw new DecisionError(
      'not_allowed',
      `"${name}" can't become an alias: it is what ${named(aliases)} for, and an alias of an alias is refused.`,
    );
}

const aliasesOf = (name: string, models: Iterable<Model>): string[] =>
  [...models]
    .filter(({ state, terms }) => state === 'active' && 'alias_of' in terms && terms.alias_of === name)
    .map((each) => each.name);

const named = (aliases: readonly string[]): string =>
  `${aliases.map((each) => `"${each}"`).join(', ')} ${aliases.length === 1 ? 'stands' : 'stand'}`;

/** The model that a command names, as long as it has directions of its own. */
export function requireModel(model: Model | undefined, name: string): Model {
  if (model?.state !== 'active')
    throw new DecisionError('not_found', `There is no model named "${name}" that was defined here.`);
  return model;
}
