import { NO_ORIGIN, type Route } from '#db/limits/limits.ts';

/**
 * The permissions of terms, compiled for the request path. Pure.
 *
 * An absent list permits everything, an empty one nothing. A request must pass the permissions of
 * its account and of its key, so a key never permits more than its account.
 */
export type Permissions = {
  models: NamePatterns | null;
  routes: ReadonlySet<Route> | null;
  origins: Origins | null;
};

type PermissionTerms = {
  models?: readonly string[] | undefined;
  routes?: readonly Route[] | undefined;
  origins?: readonly string[] | undefined;
};

/** Compiles terms. @returns null when they restrict nothing. */
export function permissionsOf({ models, routes, origins }: PermissionTerms): Permissions | null {
  if (models === undefined && routes === undefined && origins === undefined) return null;
  return {
    models: models === undefined ? null : new NamePatterns(models),
    routes: routes === undefined ? null : new Set(routes),
    origins: origins === undefined ? null : new Origins(origins),
  };
}

/** A list of names, with `*` in them for any run of characters. */
export class NamePatterns {
  readonly #names = new Set<string>();
  readonly #patterns: (readonly string[])[] = [];

  constructor(list: readonly string[]) {
    for (const each of list) {
      if (each.includes('*')) this.#patterns.push(each.split('*'));
      else this.#names.add(each);
    }
  }

  has(name: string): boolean {
    return this.#names.has(name) || this.#patterns.some((parts) => matches(parts, name));
  }
}

/**
 * Whether a name is the pattern's literal parts with anything between them. Taking each part at
 * its first place is enough, so no pattern can make a long name expensive, as a regular expression
 * with several wildcards could.
 */
export function matches(parts: readonly string[], name: string): boolean {
  const first = parts[0] ?? '';
  const last = parts.at(-1) ?? '';
  if (name.length < first.length + last.length || !name.startsWith(first) || !name.endsWith(last))
    return false;
  let at = first.length;
  for (const part of parts.slice(1, -1)) {
    const found = name.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return at <= name.length - last.length;
}

const WILDCARD = '*.';
/** Matches for the wildcard: labels of a host, without characters that would end the host. */
const LABELS = /^[a-z0-9_-]+(\.[a-z0-9_-]+)*$/;

/**
 * Where calls may come from: web origins, `https://*.example.com` for every host below one, and
 * `none` for calls without an Origin header.
 */
export class Origins {
  /** Whether calls without an Origin header may pass. */
  readonly permitsNone: boolean;
  readonly #exact = new Set<string>();
  readonly #below: { scheme: string; suffix: string }[] = [];

  constructor(list: readonly string[]) {
    this.permitsNone = list.includes(NO_ORIGIN);
    for (const each of list) {
      if (each === NO_ORIGIN) continue;
      const origin = withoutUsualPort(each);
      const at = origin.indexOf(WILDCARD);
      if (at < 0) this.#exact.add(origin);
      else this.#below.push({ scheme: origin.slice(0, at), suffix: origin.slice(at + 1) });
    }
  }

  /** @param origin the Origin header; null: there was none. */
  has(origin: string | null): boolean {
    if (origin === null) return this.permitsNone;
    const name = withoutUsualPort(origin.toLowerCase());
    return this.#exact.has(name) || this.#below.some((each) => isBelow(name, each));
  }
}

function isBelow(origin: string, { scheme, suffix }: { scheme: string; suffix: string }): boolean {
  if (
    origin.length <= scheme.length + suffix.length ||
    !origin.startsWith(scheme) ||
    !origin.endsWith(suffix)
  )
    return false;
  return LABELS.test(origin.slice(scheme.length, origin.length - suffix.length));
}

/** Browsers omit the default port of a scheme; terms may contain it. */
function withoutUsualPort(origin: string): string {
  if (origin.startsWith('https://')) return origin.endsWith(':443') ? origin.slice(0, -4) : origin;
  return origin.startsWith('http://') && origin.endsWith(':80') ? origin.slice(0, -3) : origin;
}
