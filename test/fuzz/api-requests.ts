import * as fc from 'fast-check';
import type { JsonSchema } from '#server/openapi/schemas.ts';
import type { Random } from '../chaos/random.ts';
import type { ApiOperation } from './api-document.ts';
import { chance, jsonText, mutated, pick } from './pieces.ts';
import { SchemaArbitraries } from './schema-arbitrary.ts';

/** Requests to operations of the management API, most of them valid. */

export type ApiRequest = {
  target: string;
  /** The bytes sent; null: no body. */
  body: Buffer | null;
  contentType: string;
  /** Conditions on the change. */
  conditions: Readonly<Record<string, string>>;
  /** The body as JSON; undefined: it isn't JSON. */
  value?: unknown;
};

/** One in so many requests has something that its schema doesn't allow. */
const WRONG_ONE_IN = 4;
/** One in so many names of an object is unknown. */
const UNKNOWN_ONE_IN = 6;
const NAMES_MAX = 60;
/** An ETag that no object has. */
const STALE = '"999999"';
const COLLECT_DEPTH_MAX = 6;

/** Members of replies that name an object, as bodies and queries do. */
const NAMED: ReadonlyMap<string, string> = new Map(
  Object.entries({
    account: 'account',
    key: 'key',
    request: 'request',
    number: 'number',
    invoice: 'number',
    upstream: 'upstream',
    model: 'model',
    plan: 'plan',
    pattern: 'pattern',
    email: 'email',
    current: 'password',
    digest: 'reconciliation',
  }),
);
/** Collections whose rows are named by their `name` in paths. */
const BY_NAME: readonly string[] = ['plan', 'upstream', 'sink'];

export class ApiRequests {
  readonly #random: Random;
  readonly #arbitraries: SchemaArbitraries;
  readonly #names = new Map<string, string[]>();
  readonly #fixed: Readonly<Record<string, unknown>>;

  /** @param fixed values of members that must not be random, such as addresses to connect to. */
  constructor(
    random: Random,
    schemas: Readonly<Record<string, JsonSchema>>,
    fixed: Readonly<Record<string, unknown>>,
  ) {
    this.#random = random;
    this.#arbitraries = new SchemaArbitraries(schemas);
    this.#fixed = fixed;
  }

  next({ path, query, headers, body: schema }: ApiOperation): ApiRequest {
    const random = this.#random;
    const isWrong = chance(random, WRONG_ONE_IN);
    const place = path.replace(/\{(\w+)\}/g, (_all, name: string) =>
      encodeURIComponent(this.#nameOf(name) || 'x'),
    );
    const search = new URLSearchParams();
    for (const { name, required, schema: each } of query) {
      if (!required && !this.#isFixed(name) && !chance(random, 3)) continue;
      if (isWrong && required && chance(random, 4)) continue;
      const value = this.#isFixed(name)
        ? this.#fixed[name]
        : this.#names.has(name) && !chance(random, 3)
          ? this.#nameOf(name)
          : isWrong
            ? this.#sample(fc.jsonValue({ maxDepth: 1 }))
            : this.#sample(this.#arbitraries.of(each));
      search.append(name, typeof value === 'string' ? value : JSON.stringify(value));
    }
    const text = search.toString();
    const conditions: Record<string, string> = {};
    if (headers.includes('If-Match') && chance(random, 8)) conditions['if-match'] = STALE;
    if (headers.includes('Idempotency-Key') && chance(random, 2))
      conditions['idempotency-key'] = this.#sample(fc.uuid());
    return { target: place + (text === '' ? '' : `?${text}`), conditions, ...this.#body(schema, isWrong) };
  }

  #body(schema: JsonSchema | undefined, isWrong: boolean): Omit<ApiRequest, 'target' | 'conditions'> {
    const random = this.#random;
    const contentType =
      isWrong && chance(random, 8) ? pick(random, ['text/plain', '', 'application/xml']) : 'application/json';
    if (schema === undefined)
      return isWrong && chance(random, 4)
        ? { body: Buffer.from(jsonText(random)), contentType }
        : { body: null, contentType };
    const valid = this.#named(this.#sample(this.#arbitraries.of(schema)));
    const value = isWrong ? this.#spoiled(valid) : valid;
    const bytes = Buffer.from(JSON.stringify(value));
    if (!isWrong || !chance(random, 4)) return { body: bytes, contentType, value };
    const broken = mutated(random, bytes, 1);
    return { body: broken, contentType, value: parsed(broken) };
  }

  /** Remembers the objects of a reply, by the names that paths, queries and bodies have for them. */
  collect(path: string, reply: unknown): void {
    const [, , , collection = ''] = path.split('/');
    this.#collect(collection.replace(/s$/, '').replaceAll('-', '_'), reply, 0);
  }

  #collect(subject: string, value: unknown, depth: number): void {
    if (typeof value !== 'object' || value === null || depth > COLLECT_DEPTH_MAX) return;
    for (const [name, each] of Object.entries(value)) {
      const of = name === 'id' && !BY_NAME.includes(subject) ? subject : NAMED.get(name);
      if (of !== undefined && (typeof each === 'string' || typeof each === 'number'))
        this.remember(of, String(each));
      if (name === 'name' && BY_NAME.includes(subject) && typeof each === 'string')
        this.remember(subject, each);
      this.#collect(
        name === 'data' || Array.isArray(value) ? subject : name.replace(/s$/, ''),
        each,
        depth + 1,
      );
    }
  }

  remember(subject: string, name: string): void {
    const all = this.#names.get(subject) ?? [];
    if (name === '' || name.length > 300 || all.includes(name)) return;
    all.push(name);
    // The newest ones matter most: the oldest may have been removed.
    if (all.length > NAMES_MAX) all.splice(this.#random.below(NAMES_MAX / 2), 1);
    this.#names.set(subject, all);
  }

  forget(subject: string, name: string): void {
    this.#names.set(
      subject,
      (this.#names.get(subject) ?? []).filter((each) => each !== name),
    );
  }

  #nameOf(subject: string): string {
    const all = this.#names.get(subject) ?? [];
    return all.length > 0 && !chance(this.#random, UNKNOWN_ONE_IN)
      ? pick(this.#random, all)
      : this.#sample(fc.stringMatching(/^[0-9A-Za-z]{8}$/));
  }

  #isFixed(name: string): boolean {
    return Object.hasOwn(this.#fixed, name);
  }

  /** Members that name an object name a known one, mostly; fixed ones have their value. */
  #named(value: unknown, depth = 0): unknown {
    if (Array.isArray(value)) return value.map((each) => this.#named(each, depth + 1));
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, each]) => {
        if (this.#isFixed(name) && each !== null) return [name, this.#fixed[name]];
        const subject = NAMED.get(name) ?? name;
        const all = typeof each === 'string' ? this.#names.get(subject) : undefined;
        return all !== undefined && all.length > 0 && !chance(this.#random, UNKNOWN_ONE_IN)
          ? [name, pick(this.#random, all)]
          : [name, this.#named(each, depth + 1)];
      }),
    );
  }

  /** A body with one thing wrong: a member missing, unknown, or of another type; or another body. */
  #spoiled(value: unknown): unknown {
    const random = this.#random;
    if (typeof value !== 'object' || value === null || Array.isArray(value) || chance(random, 6))
      return this.#sample(fc.jsonValue({ maxDepth: 2 }));
    const entries = Object.entries(value);
    const at = random.below(entries.length + 1);
    const chosen = entries[at];
    if (!chosen) return { ...value, [pick(random, ['extra', '__proto__x', 'constructor', ''])]: 1 };
    const [name, each] = chosen;
    if (chance(random, 3)) return Object.fromEntries(entries.filter(([other]) => other !== name));
    if (typeof each === 'object' && each !== null && chance(random, 2))
      return { ...value, [name]: this.#spoiled(each) };
    return { ...value, [name]: this.#odd() };
  }

  #odd(): unknown {
    return chance(this.#random, 2)
      ? pick(this.#random, [null, true, -1, 0.5, 1e300, '', '\u0000', 'x'.repeat(3_000), [], {}, '\ud800'])
      : this.#sample(fc.jsonValue({ maxDepth: 2 }));
  }

  #sample<T>(arbitrary: fc.Arbitrary<T>): T {
    const [value] = fc.sample(arbitrary, { seed: this.#random.below(2 ** 31), numRuns: 1 });
    return value as T;
  }
}

function parsed(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString()) as unknown;
  } catch {
    return undefined;
  }
}
