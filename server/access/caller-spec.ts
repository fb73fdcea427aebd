import type { RelayedRoute } from '#db/limits/limits.ts';
import type { ApiKeyHeader } from '#server/access/authenticate.ts';

/** Who may use a route, and how its clients send their key. */
export type CallerSpec = {
  /** The route that a key has to permit. */
  route: RelayedRoute;
  /** The header that the key may come in beside `Authorization`, as clients of this protocol send it. */
  apiKeyHeader?: ApiKeyHeader;
  /** How its requests are read: a function reads JSON. */
  parse: unknown;
};
