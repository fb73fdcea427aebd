import * as fc from 'fast-check';
import type { WorkloadTerms } from '#db/events/identity/workload-events.ts';
import { actor, id, name, one, request, time } from './arbitrary-parts.ts';

type PublicKeys = NonNullable<WorkloadTerms['jwks']>;

/** Events of workloads. The exchange is an event of a request. */

const workload = fc.constantFrom('github', 'cluster-2', '9');
const line = name.filter((text) => !/\p{Cc}/u.test(text)).map((text) => text.slice(0, 40));
const issuer = fc.constantFrom('https://token.actions.githubusercontent.com', 'http://127.0.0.1:9000/a');
export const WORKLOADS = {
  'workload.configured': fc.record({
    type: one('workload.configured' as const),
    actor,
    workload,
    account: id,
    key: id,
    terms: fc.record(
      {
        issuer,
        audience: fc.constantFrom('https://daybook.example.com', 'daybook'),
        conditions: fc.array(
          fc.record(
            {
              claim: fc.constantFrom('sub', 'repository', 'kubernetes.io.namespace'),
              values: fc.array(fc.constantFrom('acme/app', 'acme/*', 'été'), { minLength: 1, maxLength: 3 }),
            },
            { noNullPrototype: true },
          ),
          { minLength: 1, maxLength: 3 },
        ),
        key_minutes: fc.integer({ min: 1, max: 60 }),
        single_use: fc.boolean(),
        jwks: fc.option(
          fc.constant<PublicKeys>([{ kty: 'OKP', crv: 'Ed25519', kid: 'one', x: 'A'.repeat(43) }]),
        ),
        network: fc.constantFrom('public' as const, 'private' as const),
      },
      { noNullPrototype: true },
    ),
  }),
  'workload.removed': fc.record({
    type: one('workload.removed' as const),
    actor,
    workload,
    account: id,
    key: id,
  }),
};

export const anyExchange = fc.record({
  type: one('workload.exchanged' as const),
  request,
  workload,
  account: id,
  key: id,
  exchange: id,
  expires_at: time,
  issuer,
  claims: fc.dictionary(fc.constantFrom('sub', 'repository', 'environment'), line, { noNullPrototype: true }),
});
