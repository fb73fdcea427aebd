import { CHAT_COMPLETIONS, type RelayedRoute } from '#db/limits.ts';
import type { Refusal } from '#server/errors.ts';
import { type Asked, parseChat } from '#server/relay/parse.ts';

/** A relayed route, as far as it differs from the others. */
export type RelayedSpec = {
  route: RelayedRoute;
  /** Reads a request's body. Only what the relay uses is checked; the upstream judges the rest. */
  parse(body: Buffer): Asked | Refusal;
};

export const CHAT: RelayedSpec = { route: CHAT_COMPLETIONS, parse: parseChat };

/** What is relayed, by its path. */
export const RELAYED: ReadonlyMap<string, RelayedSpec> = new Map([CHAT].map((spec) => [spec.route, spec]));
