import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import type { OpenApi, Operation } from '#server/openapi/document.ts';
import type { JsonSchema } from '#server/openapi/schemas.ts';

/** What the OpenAPI document of a server says of requests and replies, as checks. */

/** One operation of the management API. */
export type ApiOperation = {
  /** `get /api/v1/keys`. */
  name: string;
  method: string;
  path: string;
  operation: Operation;
  /** JSON; absent: none is read. */
  body?: JsonSchema;
  query: { name: string; required: boolean; schema: JsonSchema }[];
  /** Names of headers that put conditions on a change. */
  headers: readonly string[];
  caller: 'management_key' | 'session' | 'public';
};

export function operationsOf({ paths }: OpenApi): ApiOperation[] {
  return Object.entries(paths)
    .filter(([path]) => path.startsWith('/api/v1/'))
    .flatMap(([path, item]) =>
      Object.entries(item).map(([method, operation]) => {
        const content = (operation.requestBody as { content?: Content } | undefined)?.content;
        const body = content?.['application/json']?.schema;
        return {
          name: `${method} ${path}`,
          method,
          path,
          operation,
          ...(body === undefined ? {} : { body }),
          query: (operation.parameters ?? [])
            .filter((each) => each['in'] === 'query')
            .map(({ name, required, schema }) => ({
              name: String(name),
              required: required === true,
              schema: schema as JsonSchema,
            })),
          headers: (operation.parameters ?? [])
            .filter((each) => each['in'] === 'header')
            .map((each) => String(each['name'])),
          caller: callerOf(operation),
        };
      }),
    );
}

function callerOf({ security }: Operation): ApiOperation['caller'] {
  if (security.some((each) => 'management_key' in each)) return 'management_key';
  return security.some((each) => 'session' in each) ? 'session' : 'public';
}

type Content = Record<string, { schema: JsonSchema }>;

/** Validates bodies and replies. Validators are compiled at their first use. */
export class ApiValidators {
  readonly #ajv = new Ajv2020({ strict: false, validateFormats: false });
  readonly #components: OpenApi['components'];
  readonly #compiled = new Map<string, ValidateFunction>();

  constructor({ components }: OpenApi) {
    this.#components = components;
  }

  /** Whether the document allows this body. */
  allowsBody({ name, body }: ApiOperation, value: unknown): boolean {
    return body === undefined || this.#errorsOf(`${name} body`, body, value) === null;
  }

  /** @returns the difference between a reply and the document; null: it is as described. */
  faultOfReply(
    { name, operation }: ApiOperation,
    status: number,
    mediaType: string,
    value: unknown,
  ): string | null {
    const { responses } = operation;
    const range = `${Math.floor(status / 100)}XX`;
    const response = responses[String(status)] ?? responses[range];
    if (response === undefined) return `status ${status} is not described`;
    const content = (response['content'] ?? {}) as Content;
    const described = content[mediaType];
    if (described === undefined) return `type "${mediaType}" is not described`;
    if (mediaType !== 'application/json') return null;
    return this.#errorsOf(`${name} ${status < 300 ? status : range}`, described.schema, value);
  }

  #errorsOf(key: string, schema: JsonSchema, value: unknown): string | null {
    let validate = this.#compiled.get(key);
    if (!validate) {
      validate = this.#ajv.compile({ ...schema, components: this.#components });
      this.#compiled.set(key, validate);
    }
    return validate(value) ? null : this.#ajv.errorsText(validate.errors);
  }
}
