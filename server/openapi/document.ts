import { z } from 'zod';
import type { ApiRoute, ReplyType } from '#server/dashboard/gate.ts';
import { RELAY_ROUTES } from '#server/openapi/relay-routes.ts';
import { VERSION } from '#server/process/version.ts';
import { type JsonSchema, namedSchemas, schemaOf } from '#server/openapi/schemas.ts';
import { streamOfRoute, takesIdempotencyKey } from '#server/dashboard/guards.ts';
import { summaryOf } from '#server/openapi/summary.ts';

/** The OpenAPI 3.1 description of the management API and the relay's routes, from their contracts. Pure. */

export type OpenApi = {
  openapi: string;
  info: JsonSchema;
  servers: JsonSchema[];
  tags: { name: string; description: string }[];
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, JsonSchema>; [member: string]: unknown };
};
export type Operation = {
  operationId: string;
  summary: string;
  tags: string[];
  security: Record<string, string[]>[];
  parameters?: JsonSchema[];
  requestBody?: JsonSchema;
  responses: Record<string, JsonSchema>;
  [extension: `x-${string}`]: unknown;
};

/** The body of every error. */
const ErrorReply = z.object({
  error: z.looseObject({
    message: z.string(),
    type: z.string(),
    code: z.string().nullable(),
    param: z.string().nullable(),
  }),
  request_id: z.string(),
});

export function describeApi(routes: readonly ApiRoute[]): OpenApi {
  const paths: OpenApi['paths'] = {};
  for (const route of routes) put(paths, route.path, route.method, managed(route));
  for (const route of RELAY_ROUTES) put(paths, route.path, route.method, relayed(route));
  const tags = new Set(
    Object.values(paths).flatMap((item) => Object.values(item).flatMap((each) => each.tags)),
  );
  return {
    openapi: '3.1.1',
    info: {
      title: 'Daybook',
      version: VERSION,
      description:
        'The management API below /api/v1, for signed-in members and management keys, and the relay below ' +
        '/v1, for API keys. Clients must accept further fields in replies.',
      license: { name: 'Unlicensed', identifier: 'LicenseRef-Unlicensed' },
    },
    servers: [{ url: '/', description: 'This server' }],
    tags: [...tags].toSorted().map((name) => ({ name, description: `Operations of ${name}.` })),
    paths,
    components: {
      securitySchemes: {
        management_key: { type: 'http', scheme: 'bearer', description: 'A management key (dbm_…).' },
        api_key: { type: 'http', scheme: 'bearer', description: 'An API key (dbk_…).' },
        session: {
          type: 'apiKey',
          in: 'cookie',
          name: '__Host-daybook',
          description: 'The session of a signed-in member. Changes need an Origin header of this server.',
        },
      },
      schemas: { ...namedSchemas(), Error: schemaOf(ErrorReply) },
    },
  };
}

function put(paths: OpenApi['paths'], path: string, method: string, operation: Operation): void {
  const name = path.replace(/:(\w+)/g, '{$1}');
  paths[name] = { ...paths[name], [method]: operation };
}

function managed({ method, path, scope, roles, contract }: ApiRoute): Operation {
  const below = path.slice('/api/v1/'.length);
  const { query, body, reply, type, others } = contract;
  return {
    operationId: operationId(method, below),
    summary: summaryOf(method, below),
    tags: [below.split('/', 1)[0] as string],
    security: [
      ...(roles === null ? [{}] : [{ session: [] }]),
      // Scopes of a bearer token are named as roles in OpenAPI 3.1.
      ...(scope === null ? [] : [{ management_key: [scope] }]),
    ],
    ...(roles === null ? {} : { 'x-roles': roles }),
    ...parameters(path, query, conditions({ method, path, scope })),
    ...(body === undefined
      ? {}
      : { requestBody: { required: true, content: { 'application/json': { schema: schemaOf(body) } } } }),
    responses: responses(
      reply,
      type ?? 'application/json',
      ACCEPTED.has(`${method} ${below}`) ? '202' : '200',
      others,
      streamOfRoute({ method, path, scope }) === null ? {} : ETAG,
    ),
  };
}

const ETAG = {
  headers: {
    ETag: {
      description: 'The version of the object, for If-Match of a change.',
      schema: { type: 'string' },
    },
  },
};

/** These do their work after the reply. */
const ACCEPTED: ReadonlySet<string> = new Set(['post registration', 'post password/forgotten']);

function relayed({
  method,
  path,
  summary,
  query,
  body,
  reply,
  others,
}: (typeof RELAY_ROUTES)[number]): Operation {
  const below = path.slice('/v1/'.length);
  return {
    operationId: `relay_${operationId(method, below)}`,
    summary,
    tags: ['relay'],
    security: [{ api_key: [] }],
    ...parameters(path, query),
    ...(body === undefined
      ? {}
      : { requestBody: { required: true, content: { [body.type]: { schema: schemaOf(body.schema) } } } }),
    responses: responses(reply, 'application/json', '200', others),
  };
}

const operationId = (method: string, below: string): string =>
  [method, ...below.split('/')].map((part) => part.replace(/^:/, 'by_').replace(/\W/g, '_')).join('_');

/** The headers that put conditions on a change. */
function conditions(route: Pick<ApiRoute, 'method' | 'path' | 'scope'>): JsonSchema[] {
  const header = (name: string, description: string, schema: JsonSchema): JsonSchema => ({
    ...{ name, in: 'header', required: false, description },
    schema: { type: 'string', ...schema },
  });
  const isVersioned = route.method !== 'get' && streamOfRoute(route) !== null;
  return [
    ...(isVersioned
      ? [header('If-Match', 'The ETag that the object must have; 412 if it has another.', {})]
      : []),
    ...(takesIdempotencyKey(route)
      ? [header('Idempotency-Key', 'The change is made once; a repeat is 409 already_done.', IDEMPOTENCY_KEY)]
      : []),
  ];
}

const IDEMPOTENCY_KEY = { minLength: 1, maxLength: 255 };

function parameters(
  path: string,
  query: z.ZodType | undefined,
  headers: readonly JsonSchema[] = [],
): { parameters?: JsonSchema[] } {
  const ofPath = [...path.matchAll(/:(\w+)/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string', minLength: 1 },
  }));
  const described = query === undefined ? {} : resolved(query);
  const { properties = {}, required = [] } = described as {
    properties?: Record<string, JsonSchema>;
    required?: string[];
  };
  const ofQuery = Object.entries(properties).map(([name, schema]) => ({
    name,
    in: 'query',
    required: required.includes(name),
    schema: textual(schema),
  }));
  const all = [...ofPath, ...ofQuery, ...headers];
  return all.length === 0 ? {} : { parameters: all };
}

/** The members of a query, also where its schema has a name. */
const resolved = (query: z.ZodType): JsonSchema =>
  z.toJSONSchema(query, { io: 'input', unrepresentable: 'any' });

/** A parameter that is coerced accepts anything as JSON; as text it has a type. */
const textual = (schema: JsonSchema): JsonSchema =>
  Object.keys(schema).every((key) => ['default', 'description'].includes(key))
    ? { ...schema, type: 'string' }
    : schema;

function responses(
  reply: z.ZodType,
  type: string,
  status: string,
  others: readonly ReplyType[] = [],
  more: JsonSchema = {},
): Operation['responses'] {
  const error = { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } };
  const files = Object.fromEntries(others.map((other) => [other, { schema: { type: 'string' } }]));
  return {
    [status]: {
      description: 'Success.',
      ...more,
      content: { [type]: { schema: schemaOf(reply) }, ...files },
    },
    '4XX': { description: 'The request is rejected.', content: error },
    '5XX': { description: 'The server failed, or is unavailable.', content: error },
  };
}
