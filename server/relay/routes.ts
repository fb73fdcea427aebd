import { CHAT_COMPLETIONS, type RelayedRoute } from '#db/limits/limits.ts';
import { messagesErrorBody, messagesErrorEvent } from '#server/providers/anthropic/fault.ts';
import { CONVENTION, type ErrorShape, RESPONSES } from '#server/wire/error-shape.ts';
import { type Parse, parseChat } from '#server/wire/parse.ts';
import { parseCompletion, parseEmbeddings, parseMessage, parseResponse } from '#server/wire/parse-others.ts';

/** A relayed route, as far as it differs from the others. */
export type RelayedSpec = {
  route: RelayedRoute;
  parse: Parse;
  /** How its clients are told of errors, those of every stage. */
  shape: ErrorShape;
  /** Where its clients look for the id of their request, beside `x-request-id`. */
  requestIdHeader?: string;
  /** Whether the key may come as `x-api-key`, as clients of this protocol send it. */
  takesApiKey?: true;
  /** Headers that belong to the protocol: they go on to an upstream that speaks it, and no others do. */
  protocolHeaders?: readonly string[];
};

export const CHAT: RelayedSpec = { route: CHAT_COMPLETIONS, parse: parseChat, shape: CONVENTION };

export const MESSAGES: RelayedSpec = {
  route: '/v1/messages',
  parse: parseMessage,
  shape: { body: messagesErrorBody, event: messagesErrorEvent },
  requestIdHeader: 'request-id',
  takesApiKey: true,
  protocolHeaders: ['anthropic-version', 'anthropic-beta'],
};

const SPECS: readonly RelayedSpec[] = [
  CHAT,
  { route: '/v1/completions', parse: parseCompletion, shape: CONVENTION },
  { route: '/v1/embeddings', parse: parseEmbeddings, shape: CONVENTION },
  { route: '/v1/responses', parse: parseResponse, shape: RESPONSES },
  MESSAGES,
];

/** What is relayed, by its path. */
export const RELAYED: ReadonlyMap<string, RelayedSpec> = new Map(SPECS.map((spec) => [spec.route, spec]));

/** How errors are told of a path, whether or not it is relayed: what is below one has the same clients. */
export function speechOf(path: string): Pick<RelayedSpec, 'shape' | 'requestIdHeader'> {
  return RELAYED.get(path) ?? (path.startsWith(`${MESSAGES.route}/`) ? MESSAGES : CHAT);
}
