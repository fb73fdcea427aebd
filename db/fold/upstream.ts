import type { UpstreamEvent } from '#db/events/subjects.ts';
import type { UpstreamTerms } from '#db/events/upstream-events.ts';
import type { Stored } from '#db/fold/stored.ts';

/** The public part of a credential. Its secret is sealed in a table of its own. */
export type Credential = { id: string; label: string; last4: string; addedAt: Date };

/** A configured endpoint of a provider. */
export type Upstream = {
  name: string;
  terms: UpstreamTerms;
  state: 'active' | 'removed';
  /** Those that calls are sent with, the oldest first. */
  credentials: readonly Credential[];
  /** Those that read the provider's bills, the oldest first. No call is sent with them. */
  billingCredentials: readonly Credential[];
  /** The position of its newest event. */
  position: number;
  /** The version that its stream has reached; the next event takes `version + 1`. */
  version: number;
};

const NO_CREDENTIALS = { credentials: [], billingCredentials: [] } as const;

/** All credentials of an upstream, whatever their purpose. */
export const allCredentials = ({ credentials, billingCredentials }: Upstream): readonly Credential[] => [
  ...credentials,
  ...billingCredentials,
];

/** The upstream after the next event of its stream; undefined where it was never added. */
export function evolveUpstream(
  upstream: Upstream | undefined,
  stored: Stored<UpstreamEvent>,
): Upstream | undefined {
  const { event, position, version } = stored;
  if (event.type === 'upstream.added') {
    const { upstream: name, terms } = event;
    return { name, terms, state: 'active', ...NO_CREDENTIALS, position, version };
  }
  return upstream && { ...upstream, ...changeBy(event, upstream, stored.at), position, version };
}

function changeBy(
  event: Exclude<UpstreamEvent, { type: 'upstream.added' }>,
  { credentials, billingCredentials }: Upstream,
  at: Date,
): Partial<Upstream> {
  switch (event.type) {
    case 'upstream.changed':
      return { terms: event.terms };
    case 'upstream.removed':
      return { state: 'removed', ...NO_CREDENTIALS };
    case 'upstream.credential_added': {
      const { credential: id, label, last4 } = event;
      const added = { id, label, last4, addedAt: at };
      return event.purpose === 'billing'
        ? { billingCredentials: [...billingCredentials, added] }
        : { credentials: [...credentials, added] };
    }
    case 'upstream.credential_removed':
      return {
        credentials: credentials.filter(({ id }) => id !== event.credential),
        billingCredentials: billingCredentials.filter(({ id }) => id !== event.credential),
      };
  }
}
