import type { UpstreamTerms } from '#db/events/upstream-events.ts';
import { openUpstream, type Upstream } from '#server/upstreams/upstream.ts';

/** Terms of an upstream that uses the convention, with these of its own. */
export function termsOf(more: Partial<UpstreamTerms> = {}): UpstreamTerms {
  return {
    provider: 'openai',
    base_url: 'https://one.example/v1',
    models: [],
    network: 'public',
    on_client_disconnect: 'cancel',
    retries: 0,
    paused: false,
    ...more,
  };
}

/**
 * An upstream that nothing is sent to, with as many credentials as are asked for; nothing of it has to be
 * closed.
 */
export function unsent(
  name: string,
  { credentials = 1, ...more }: Partial<UpstreamTerms> & { credentials?: number } = {},
): Upstream {
  const ids = Array.from({ length: credentials }, (_, index) => ({ id: `${name}-${index}`, secret: '' }));
  return openUpstream(
    { name, terms: termsOf({ base_url: `https://${name}.example/v1`, ...more }), credentials: ids },
    () => ({}),
  );
}
