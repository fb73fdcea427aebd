import * as fc from 'fast-check';
import type { JsonSchema } from '#server/openapi/schemas.ts';

/** Random values that a JSON Schema of the OpenAPI document allows, and values that are close to them. */

type Schemas = Readonly<Record<string, JsonSchema>>;
const DEPTH_MAX = 6;
const LIST_MAX = 3;
const TEXT_MAX = 40;
const NUMBER_MAX = 1_000_000_000;
const REF = '#/components/schemas/';

/** Makes arbitraries of schemas, each once. */
export class SchemaArbitraries {
  readonly #schemas: Schemas;
  readonly #made = new WeakMap<JsonSchema, fc.Arbitrary<unknown>>();

  /** @param schemas what `#/components/schemas/` has. */
  constructor(schemas: Schemas) {
    this.#schemas = schemas;
  }

  /** Values that the schema allows, as far as its keywords say. */
  of(schema: JsonSchema, depth = 0): fc.Arbitrary<unknown> {
    const known = depth === 0 ? this.#made.get(schema) : undefined;
    if (known) return known;
    const made = this.#make(schema, depth);
    if (depth === 0) this.#made.set(schema, made);
    return made;
  }

  #make(schema: JsonSchema, depth: number): fc.Arbitrary<unknown> {
    const part = (each: unknown): fc.Arbitrary<unknown> => this.of(each as JsonSchema, depth + 1);
    const { $ref, type, enum: names, const: constant, anyOf, oneOf, allOf } = schema;
    if (depth > DEPTH_MAX) return fc.constant(null);
    if (typeof $ref === 'string') return part(this.#schemas[$ref.slice(REF.length)] ?? {});
    if (constant !== undefined) return fc.constant(constant);
    if (Array.isArray(names)) return fc.constantFrom(...(names as unknown[]));
    const choices = (anyOf ?? oneOf) as unknown[] | undefined;
    if (choices) return fc.oneof(...choices.map(part));
    if (Array.isArray(allOf))
      return fc
        .tuple(...(allOf as unknown[]).map(part))
        .map((all) => Object.assign({}, ...(all as object[])) as unknown);
    if (Array.isArray(type))
      return fc.oneof(...(type as string[]).map((each) => part({ ...schema, type: each })));
    switch (type) {
      case 'object':
        return objectOf(schema, part);
      case 'array':
        return fc.array(part(schema['items'] ?? {}), {
          minLength: Number(schema['minItems'] ?? 0),
          maxLength: Math.max(LIST_MAX, Number(schema['minItems'] ?? 0)),
        });
      case 'string':
        return textOf(schema);
      case 'integer':
      case 'number':
        return numberOf(schema);
      case 'boolean':
        return fc.boolean();
      case 'null':
        return fc.constant(null);
      default:
        return fc.jsonValue({ maxDepth: 1 });
    }
  }
}

function objectOf(schema: JsonSchema, part: (each: unknown) => fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  const properties = Object.entries((schema['properties'] ?? {}) as Record<string, unknown>);
  const others = schema['additionalProperties'];
  if (properties.length === 0 && typeof others === 'object' && others !== null)
    return fc.dictionary(textOf((schema['propertyNames'] ?? {}) as JsonSchema), part(others), {
      maxKeys: LIST_MAX,
    });
  const model = Object.fromEntries(properties.map(([name, each]) => [name, part(each)]));
  const requiredKeys = ((schema['required'] ?? []) as string[]).filter((name) => name in model);
  const least = Object.fromEntries(requiredKeys.map((name) => [name, model[name] as fc.Arbitrary<unknown>]));
  // Many optional members at once rarely fit together.
  return fc.oneof(
    fc.record(least, { noNullPrototype: true }),
    fc.record(model, { requiredKeys: requiredKeys as never[], noNullPrototype: true }),
  );
}

/** Mostly small numbers, and the bounds. */
function numberOf({ minimum, maximum, exclusiveMinimum }: JsonSchema): fc.Arbitrary<number> {
  const least = Number(
    minimum ?? (exclusiveMinimum === undefined ? -NUMBER_MAX : Number(exclusiveMinimum) + 1),
  );
  const min = Math.max(least, -NUMBER_MAX);
  const max = Math.max(min, Math.min(Number(maximum ?? NUMBER_MAX), NUMBER_MAX));
  return fc.oneof(
    fc.integer({ min, max: Math.min(max, min + 100) }),
    fc.integer({ min, max }),
    fc.constantFrom(min, max),
  );
}

const TEXTS: Readonly<Record<string, () => fc.Arbitrary<string>>> = {
  'date-time': () =>
    fc
      .date({ min: new Date('2020-01-01'), max: new Date('2040-01-01'), noInvalidDate: true })
      .map((date) => date.toISOString()),
  date: () => TEXTS['date-time']!().map((text) => text.slice(0, 10)),
  uuid: () => fc.uuid({ version: 4 }),
  ipv4: () => fc.ipV4(),
  ipv6: () => fc.ipV6(),
  cidrv4: () => fc.ipV4().map((address) => `${address}/24`),
  cidrv6: () => TEXTS['ipv6']!().map((address) => `${address}/64`),
};

function textOf({ pattern, format, enum: names, minLength, maxLength }: JsonSchema): fc.Arbitrary<string> {
  if (Array.isArray(names)) return fc.constantFrom(...(names as string[]));
  const known = TEXTS[String(format)];
  if (known) return known();
  const min = Number(minLength ?? 0);
  const max = Math.max(min, Math.min(Number(maxLength ?? TEXT_MAX), TEXT_MAX));
  if (typeof pattern === 'string') {
    try {
      return fc.stringMatching(new RegExp(pattern, 'u'), { maxLength: Math.max(60, max) });
    } catch {
      // A pattern without a generator: any text, which the server may reject.
    }
  }
  return fc.string({ unit: 'grapheme', minLength: min, maxLength: max });
}
