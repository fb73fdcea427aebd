import { readFile } from 'node:fs/promises';
import { findPackageJSON } from 'node:module';
import type { UpstreamTerms } from '#db/events/upstream-events.ts';
import type { LanguageModel } from '#server/providers/bridge/language-model.ts';

/** A package that can't be used. The message is one line for the operator: what happened, and what to do. */
export class PackageError extends Error {
  override name = 'PackageFault';
  readonly code: 'provider_package_missing' | 'provider_package_unfit' | 'provider_package_failed';
  constructor(code: PackageError['code'], message: string) {
    super(message);
    this.code = code;
  }
}

/** Returns a provider's model by its name. @throws {PackageError} for an unsupported specification. */
export type Models = (name: string) => LanguageModel;

type Terms = Pick<UpstreamTerms, 'package' | 'base_url' | 'options'>;

/** An AI SDK package says of itself that it is made for one of these. */
const KIN = ['@ai-sdk/provider', '@ai-sdk/provider-utils', 'ai'];

/**
 * Loads the package of an upstream and makes its provider.
 *
 * Only a package made for the AI SDK is run: an administrator who sets up an upstream names a package,
 * and must not make this process run any other that happens to be installed.
 * @param secret the credential; one that is a JSON object holds several values, as clouds need them.
 * @throws {PackageError}
 */
export async function loadModels(
  terms: Terms,
  secret: string,
  fetch: typeof globalThis.fetch,
): Promise<Models> {
  const name = terms.package ?? '';
  await checkKin(name);
  const exported = await importPackage(name);
  const settings = {
    ...(terms.base_url === undefined ? {} : { baseURL: terms.base_url }),
    // Without it one package does not ask for usage; the others don't know it.
    includeUsage: true,
    ...terms.options,
    ...credentials(secret),
    fetch,
  };
  return modelsOf(name, exported, settings);
}

/**
 * The models of a package, from its exports. Pure except for the package's own side effects. @throws
 * {PackageError}
 */
export function modelsOf(name: string, exported: Record<string, unknown>, settings: object): Models {
  const provider = makeProvider(name, exported, settings);
  return (model) => {
    const found = 'languageModel' in provider ? provider.languageModel(model) : provider(model);
    const { specificationVersion } = found;
    if (specificationVersion === 'v3' || specificationVersion === 'v4') return found;
    throw new PackageError(
      'provider_package_unfit',
      `The package ${name} implements version ${String(specificationVersion)} ` +
        `of the AI SDK's specification, and Daybook supports v3 and v4. ` +
        `Install a newer one: npm install ${name}@latest`,
    );
  };
}

async function checkKin(name: string): Promise<void> {
  const place = manifestPath(name);
  if (place === undefined) {
    throw new PackageError(
      'provider_package_missing',
      `The package ${name} is not installed. In Daybook's directory run: npm install ${name}`,
    );
  }
  const { dependencies, peerDependencies } = JSON.parse(await readFile(place, 'utf8')) as Record<
    string,
    Record<string, string> | undefined
  >;
  if (!KIN.some((each) => each in { ...dependencies, ...peerDependencies })) {
    throw new PackageError(
      'provider_package_unfit',
      `The package ${name} is not a provider of the AI SDK: it depends on none of ${KIN.join(', ')}.`,
    );
  }
}

function manifestPath(name: string): string | undefined {
  try {
    return findPackageJSON(name, import.meta.url);
  } catch {
    return undefined;
  }
}

async function importPackage(name: string): Promise<Record<string, unknown>> {
  try {
    return (await import(name)) as Record<string, unknown>;
  } catch (error) {
    throw new PackageError(
      'provider_package_failed',
      `The package ${name} can't be loaded (${codeOf(error)}). ` +
        `In Daybook's directory run: npm install ${name}`,
    );
  }
}

/** The kind of an error, whose words may hold anything. */
function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown';
  const { code } = error as NodeJS.ErrnoException;
  return (code ?? error.name).slice(0, 60);
}

/** What a credential gives to a package: its key, or the several values of a JSON object. */
function credentials(secret: string): object {
  if (secret === '') return {};
  if (!secret.startsWith('{')) return { apiKey: secret };
  try {
    return JSON.parse(secret) as object;
  } catch {
    return { apiKey: secret };
  }
}

type GiveModel = (model: string) => LanguageModel;
/** Some are functions themselves. */
type ProviderMade = { languageModel: GiveModel } | GiveModel;

/** By the one function that begins with `create` and makes a provider. */
function makeProvider(name: string, exported: Record<string, unknown>, settings: object): ProviderMade {
  const factory = factoryOf(exported);
  let problem = 'it is not known which of its functions does it';
  if (factory) {
    try {
      const made = factory(settings);
      if (isProvider(made)) return made;
      problem = 'its function gives none';
      if (made instanceof Promise) made.catch(() => {});
    } catch (error) {
      problem = codeOf(error);
    }
  }
  throw new PackageError(
    'provider_package_unfit',
    `The package ${name} creates no provider from the upstream's options (${problem}). ` +
      'See its documentation for the options that it needs.',
  );
}

/**
 * Some packages have it under two names, and some have functions for other things, too. Then it is the
 * one that has a provider ready-made beside it: `createGoogle` and `google`. None is called to find out.
 */
function factoryOf(exported: Record<string, unknown>): ((settings: object) => unknown) | null {
  const names = Object.keys(exported).filter(
    (each) => /^create[A-Z]/.test(each) && typeof exported[each] === 'function',
  );
  const known = new Set(Object.keys(exported).map((each) => each.toLowerCase()));
  const paired = names.filter((each) => known.has(each.slice('create'.length).toLowerCase()));
  const factories = new Set((paired.length > 0 ? paired : names).map((each) => exported[each]));
  return factories.size === 1 ? ([...factories][0] as (settings: object) => unknown) : null;
}

function isProvider(made: unknown): made is ProviderMade {
  if (typeof made === 'function')
    return 'languageModel' in made || 'specificationVersion' in made || 'chat' in made;
  return (
    typeof made === 'object' &&
    made !== null &&
    'languageModel' in made &&
    typeof made.languageModel === 'function'
  );
}
