import * as fc from 'fast-check';
import { EMPTY_ACCOUNTS, PASSWORD_POLICIES } from '#db/events/identity/identity-events.ts';
import { ROLES } from '#db/events/parts.ts';
import { actor, id, name, one } from './arbitrary-parts.ts';

/** Events of identity providers and of the password policy. */

const line = name.filter((text) => !/\p{Cc}/u.test(text) && text.length <= 40);
const provider = fc.constantFrom('acme', 'globex-2', '9');
export const IDENTITY = {
  'identity_provider.configured': fc.record({
    type: one('identity_provider.configured' as const),
    actor,
    provider,
    terms: fc.record(
      {
        label: line,
        issuer: fc.constantFrom('https://login.example.com', 'http://127.0.0.1:9000/realms/a'),
        client_id: line,
        scopes: fc.array(fc.constantFrom('email', 'profile', 'groups'), { maxLength: 3 }),
        groups_claim: fc.constantFrom('groups', 'realm_access.roles'),
        link_by_email: fc.boolean(),
        session_hours: fc.integer({ min: 1, max: 720 }),
        empty_accounts: fc.constantFrom(...EMPTY_ACCOUNTS),
        network: fc.constantFrom('public' as const, 'private' as const),
        rules: fc.array(
          fc.record(
            { group: fc.option(line), role: fc.constantFrom(...ROLES), account: fc.option(id) },
            { noNullPrototype: true },
          ),
          { minLength: 1, maxLength: 3 },
        ),
      },
      { noNullPrototype: true },
    ),
  }),
  'identity_provider.removed': fc.record({
    type: one('identity_provider.removed' as const),
    actor,
    provider,
  }),
  'sign_in.changed': fc.record({
    type: one('sign_in.changed' as const),
    actor,
    passwords: fc.constantFrom(...PASSWORD_POLICIES),
  }),
};
