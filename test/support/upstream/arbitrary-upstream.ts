import * as fc from 'fast-check';
import type { ModelEvent, UpstreamEvent } from '#db/events/subjects.ts';
import type { Event, EventOf } from '#db/events/events.ts';
import { RELAYED_ROUTES } from '#db/limits/limits.ts';
import {
  DIALECTS,
  type ModelTerms,
  type Target,
  type Attempt,
  type UpstreamTerms,
} from '#db/events/upstream-events.ts';

/** Any events of upstreams and of models that go to them. */

/** One for each type, so that none can be forgotten. */
export type Made<E extends Event> = { [T in E['type']]: fc.Arbitrary<EventOf<T>> };

type Parts = Record<'id' | 'slug' | 'modelName', fc.Arbitrary<string>> & { actor: fc.Arbitrary<string> };

const optional = { noNullPrototype: true } as const;

const used = {
  models: fc.array(fc.constantFrom('*', 'gpt-*', 'claude-*', 'llama3.2:1b'), { maxLength: 4 }),
  network: fc.constantFrom('public' as const, 'private' as const),
  on_client_disconnect: fc.constantFrom('cancel' as const, 'drain' as const),
  retries: fc.nat(3),
  paused: fc.boolean(),
};
const USED = Object.keys(used) as (keyof typeof used)[];
const base_url = fc.constantFrom(
  'https://api.example.com/v1',
  'http://127.0.0.1:11434/v1',
  'https://[2001:db8::1]:8443',
);
const routes = fc.uniqueArray(fc.constantFrom(...RELAYED_ROUTES));

/** As the vocabulary has read them: what may be omitted has its default. */
export const anyUpstreamTerms = fc.oneof(
  fc.record(
    {
      ...used,
      base_url,
      routes,
      provider: fc.constant('openai' as const),
      dialect: fc.constantFrom(...DIALECTS),
      token_limit: fc.constantFrom('max_tokens' as const, 'max_completion_tokens' as const),
    },
    { ...optional, requiredKeys: [...USED, 'base_url', 'provider'] },
  ),
  fc.record({ ...used, base_url, provider: fc.constant('anthropic' as const) }, optional),
  fc.record(
    {
      ...used,
      provider: fc.constant('bridge' as const),
      package: fc.constantFrom('@ai-sdk/google', 'some-provider'),
      options: fc.constantFrom({}, { region: 'eu-central-1', retries: 2, strict: true }),
    },
    { ...optional, requiredKeys: [...USED, 'provider', 'package'] },
  ),
) as fc.Arbitrary<UpstreamTerms>;

export function madeOfUpstreams({ actor, id, slug, modelName }: Parts): Made<UpstreamEvent | ModelEvent> {
  const target = fc.record(
    { upstream: slug, model: modelName, weight: fc.nat(1_000), order: fc.nat(16) },
    { ...optional, requiredKeys: ['upstream', 'weight', 'order'] },
  ) as fc.Arbitrary<Target>;
  const terms: fc.Arbitrary<ModelTerms> = fc.oneof(
    fc.record({ targets: fc.array(target, { minLength: 1, maxLength: 4 }) }, optional),
    fc.record({ alias_of: modelName }, optional),
  );
  const of = <T extends string>(type: T) => ({ type: fc.constant(type), actor });
  return {
    'model.defined': fc.record({ ...of('model.defined'), model: modelName, terms }),
    'model.retired': fc.record({ ...of('model.retired'), model: modelName }),
    'upstream.added': fc.record({ ...of('upstream.added'), upstream: slug, terms: anyUpstreamTerms }),
    'upstream.changed': fc.record({ ...of('upstream.changed'), upstream: slug, terms: anyUpstreamTerms }),
    'upstream.removed': fc.record({ ...of('upstream.removed'), upstream: slug }),
    'upstream.credential_added': fc.record({
      ...of('upstream.credential_added'),
      upstream: slug,
      credential: id,
      label: fc.constantFrom('main', 'the second one'),
      last4: fc.constantFrom('', 'abcd'),
    }),
    'upstream.credential_removed': fc.record({
      ...of('upstream.credential_removed'),
      upstream: slug,
      credential: id,
    }),
  };
}

/** What a call's attempts may be reported as. */
export const anyTries = (slug: fc.Arbitrary<string>, id: fc.Arbitrary<string>): fc.Arbitrary<Attempt[]> =>
  fc.array(
    fc.record(
      {
        upstream: slug,
        credential: id,
        outcome: fc.constantFrom('delivered', 'status_503', 'unreachable'),
        duration_ms: fc.nat(1_000_000),
      },
      { ...optional, requiredKeys: ['upstream', 'outcome', 'duration_ms'] },
    ),
    { minLength: 2, maxLength: 6 },
  );
