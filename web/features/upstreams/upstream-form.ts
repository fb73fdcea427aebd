import type { UpstreamTerms } from '#db/events/upstream-events.ts';
import { choiceNamed, choiceOf, isDialect, looksPrivate, defaultModels } from './provider-choices.ts';

/** Form state of an upstream. Pure. */
export type UpstreamForm = Pick<
  UpstreamTerms,
  'network' | 'models' | 'on_client_disconnect' | 'retries' | 'paused'
> & {
  choice: string;
  address: string;
  package: string;
  /** Each as `name=value`. */
  options: string[];
  /** Null for the dialect's routes. */
  routes: UpstreamTerms['routes'] | null;
  token_limit: NonNullable<UpstreamTerms['token_limit']> | '';
};

export type Addresses = Readonly<Record<string, { base_url: string | null }>>;

/** The provider's default base URL, or an empty string. */
export const defaultAddress = (choice: string, known: Addresses): string =>
  choiceNamed(choice).address ?? known[choice]?.base_url ?? '';

export function newForm(choice: string, known: Addresses): UpstreamForm {
  const address = defaultAddress(choice, known);
  return {
    choice,
    address,
    network: looksPrivate(address) ? 'private' : 'public',
    models: defaultModels(choiceNamed(choice)),
    package: '',
    options: [],
    routes: null,
    token_limit: '',
    on_client_disconnect: 'cancel',
    retries: 0,
    paused: false,
  };
}

export function toForm(terms: UpstreamTerms): UpstreamForm {
  const {
    base_url,
    package: name,
    options = {},
    routes,
    token_limit,
    network,
    models,
    on_client_disconnect,
    retries,
    paused,
  } = terms;
  return {
    choice: choiceOf(terms).id,
    address: base_url ?? '',
    package: name ?? '',
    options: Object.entries(options).map(([key, value]) => `${key}=${value}`),
    routes: routes ?? null,
    token_limit: token_limit ?? '',
    network,
    models,
    on_client_disconnect,
    retries,
    paused,
  };
}

/** Converts the form to terms. @param before the current terms, whose dialect may be unset. */
export function toTerms(form: UpstreamForm, before: UpstreamTerms | null): UpstreamTerms {
  const { provider, id } = choiceNamed(form.choice);
  const isUnset = id === 'other' && before !== null && before.dialect === undefined;
  const address = form.address.trim();
  return {
    provider,
    ...(isDialect(id) && !isUnset ? { dialect: id } : {}),
    ...(address === '' ? {} : { base_url: address }),
    ...(provider === 'bridge'
      ? {
          package: form.package.trim(),
          ...(form.options.length === 0 ? {} : { options: Object.fromEntries(form.options.map(readOption)) }),
        }
      : {}),
    models: form.models,
    ...(form.routes == null ? {} : { routes: form.routes }),
    ...(form.token_limit === '' ? {} : { token_limit: form.token_limit }),
    network: form.network,
    on_client_disconnect: form.on_client_disconnect,
    retries: form.retries,
    paused: form.paused,
  };
}

/** Parses numbers and booleans, since packages distinguish them from strings. */
function readOption(text: string): [string, string | number | boolean] {
  const at = text.indexOf('=');
  const [name, value] = at < 0 ? [text, ''] : [text.slice(0, at).trim(), text.slice(at + 1).trim()];
  if (value === 'true' || value === 'false') return [name, value === 'true'];
  return [name, /^-?\d{1,15}(\.\d{1,9})?$/.test(value) ? Number(value) : value];
}
