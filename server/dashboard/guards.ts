import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { ManagementScope } from '#db/events/management-scopes.ts';
import type { ChangeGuard } from '#server/control/change-guard.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { readIdempotencyKey } from '#server/idempotency/key-header.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';

/** `If-Match`, `ETag` and `Idempotency-Key` of the management API. Pure. */

type Route = { method: string; path: string; scope: ManagementScope | null };
type Named = { params: Readonly<Record<string, string>>; body: unknown };

const PREFIX = '/api/v1/';

/** Objects with a version: the first part of their routes, and the kind of their stream. */
const VERSIONED: readonly (readonly [path: RegExp, kind: string, param: string])[] = [
  [/^accounts\/:account(\/(override|parent|plan|reinstate|suspend|top-ups))?$/, 'account', 'account'],
  [/^keys\/:key(\/(leaked|revoke|rotate))?$/, 'key', 'key'],
  [/^plans\/:plan(\/retire)?$/, 'plan', 'plan'],
  [/^upstreams\/:upstream(\/credentials(\/:credential)?)?$/, 'upstream', 'upstream'],
];
/** Changes of one object that the body names. */
const VERSIONED_BY_BODY: Readonly<Record<string, (body: Record<string, string>) => string>> = {
  'put dispatch': ({ model }) => `dispatch/${model}`,
  'post dispatch/retire': ({ model }) => `dispatch/${model}`,
  'put prices': ({ model, plan }) => (plan === undefined ? `model/${model}` : `plan_price/${plan}/${model}`),
};
/** Changes that take no idempotency key: they have a reference of their own, or aren't events. */
const WITHOUT_KEY =
  /^(destinations|reconciliations|statement-emails|sinks\/:sink\/test|requests\/|upstreams\/:upstream\/test)/;

/** The name of the stream whose version is the ETag of a route; null: the route has none. */
export function streamOfRoute({ method, path }: Route): ((named: Named) => string) | null {
  const below = path.slice(PREFIX.length);
  const byBody = VERSIONED_BY_BODY[`${method} ${below}`];
  if (byBody) return ({ body }) => byBody(body as Record<string, string>);
  const [, kind, param] = VERSIONED.find(([pattern]) => pattern.test(below)) ?? [];
  if (kind === undefined || param === undefined || (method === 'get' && below.split('/').length > 2))
    return null;
  return ({ params }) => `${kind}/${params[param] ?? ''}`;
}

/** Whether the changes of a route are made once for each `Idempotency-Key`. */
export const takesIdempotencyKey = ({ method, path, scope }: Route): boolean =>
  method !== 'get' && scope?.endsWith(':write') === true && !WITHOUT_KEY.test(path.slice(PREFIX.length));

/** The conditions that the headers of a request put on its change; null: none. */
export function readGuard(
  route: Route,
  request: Pick<IncomingMessage, 'headers' | 'rawHeaders' | 'url'>,
  actor: string,
  named: Named,
): ChangeGuard | ApiError | null {
  const ifMatch = request.headers['if-match'];
  const key = readIdempotencyKey(request);
  if (key instanceof ApiError) return key;
  if (ifMatch === undefined && key === null) return null;
  if (key !== null && !takesIdempotencyKey(route))
    return new ApiError('invalid_idempotency_key', {
      message: 'This route takes no Idempotency-Key. Send the request without one.',
    });
  const stream = ifMatch === undefined ? null : (streamOfRoute(route)?.(named) ?? null);
  if (ifMatch !== undefined && stream === null)
    return new ApiError('precondition_failed', {
      message: 'This route has no ETag. Send the request without If-Match.',
    });
  return {
    precondition: stream === null ? null : { stream, versions: versionsOf(ifMatch ?? '') },
    idempotency: key === null ? null : identify(route, request.url ?? '', actor, key, named.body),
  };
}

/** The versions that `If-Match` names; null: any. Weak ETags never match (RFC 9110, 13.1.1). */
function versionsOf(ifMatch: string): number[] | null {
  if (ifMatch.trim() === '*') return null;
  return ifMatch
    .split(',')
    .map((tag) => /^"(\d{1,10})"$/.exec(tag.trim())?.[1])
    .flatMap((version) => (version === undefined ? [] : [Number(version)]));
}

/** The names that a change with this key takes: its own, and that of its request. */
function identify(
  { method }: Route,
  url: string,
  actor: string,
  key: string,
  body: unknown,
): { claim: string; fingerprint: string } {
  const claim = `idempotency/${actor}/${digest(key)}`;
  return { claim, fingerprint: `${claim}/${digest(JSON.stringify([method, url, body ?? null]))}` };
}

const digest = (text: string): string => createHash('sha256').update(text).digest('base64url');

/** The ETag of a stream, as this process knows it; null: it has no events. */
export function etagOf(readModel: ReadModel, stream: string): string | null {
  const version = versionOf(readModel, stream);
  return version === undefined ? null : `"${version}"`;
}

function versionOf(readModel: ReadModel, stream: string): number | undefined {
  const [kind, id] = divided(stream);
  switch (kind) {
    case 'account':
      return readModel.account(id)?.version;
    case 'key':
      return readModel.key(id)?.version;
    case 'plan':
      return readModel.plan(id)?.version;
    case 'upstream':
      return readModel.directory.upstream(id)?.version;
    case 'dispatch':
      return readModel.directory.model(id)?.version;
    case 'model':
      return readModel.prices.get(id)?.version;
    case 'plan_price': {
      const [plan, pattern] = divided(id);
      return readModel.prices.get(pattern, plan)?.version;
    }
    default:
      return undefined;
  }
}

const divided = (name: string): [string, string] => {
  const at = name.indexOf('/');
  return [name.slice(0, at), name.slice(at + 1)];
};
