import type { ControlEvent } from '#db/events/events.ts';
import type { UpstreamTerms } from '#db/events/upstream-events.ts';

/** A credential as everybody may know it. Its secret lies sealed in a table of its own. */
export type Credential = { id: string; label: string; last4: string; addedAt: Date };

/** A configured endpoint of a provider. */
export type Upstream = {
  name: string;
  terms: UpstreamTerms;
  state: 'active' | 'removed';
  /** The oldest first. */
  credentials: readonly Credential[];
  /** The position of its newest event. */
  position: number;
  /** How many events its stream has; the next one takes `version + 1`. */
  version: number;
};

/**
 * The upstream after one more event of its own stream; events of other subjects change nothing.
 * @param at when the event happened, and `position` where it stands in the log.
 */
export function evolveUpstream(
  upstream: Upstream | undefined,
  event: ControlEvent,
  at: Date,
  position: number,
): Upstream | undefined {
  switch (event.type) {
    case 'upstream.added':
      return {
        name: event.upstream,
        terms: event.terms,
        state: 'active',
        credentials: [],
        position,
        version: (upstream?.version ?? 0) + 1,
      };
    case 'upstream.changed':
      return upstream && { ...upstream, terms: event.terms, position, version: upstream.version + 1 };
    case 'upstream.removed':
      return (
        upstream && {
          ...upstream,
          state: 'removed',
          credentials: [],
          position,
          version: upstream.version + 1,
        }
      );
    case 'upstream.credential_added': {
      if (!upstream) return undefined;
      const { credential: id, label, last4 } = event;
      return {
        ...upstream,
        credentials: [...upstream.credentials, { id, label, last4, addedAt: at }],
        position,
        version: upstream.version + 1,
      };
    }
    case 'upstream.credential_removed': {
      if (!upstream) return undefined;
      const credentials = upstream.credentials.filter(({ id }) => id !== event.credential);
      return { ...upstream, credentials, position, version: upstream.version + 1 };
    }
    default:
      return upstream;
  }
}
