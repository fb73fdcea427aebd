import { z } from 'zod';
import { Control, Id, RoleName } from '#db/events/parts.ts';

/** How members sign in: identity providers, and who may use a password. Pure. */

/** Part of the redirect URI, so it can't be changed. */
export const ProviderName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9-]{0,31}$/, 'must be lower-case letters, digits and "-", at most 32');

export const RULES_MAX = 100;
export const oneLine = (max: number) =>
  z
    .string()
    .trim()
    .min(1)
    .max(max)
    .regex(/^\P{Cc}*$/u, 'must have no control characters');

/** The first rule whose group a person is in decides their role and account. */
export const IdentityRule = z.strictObject({
  /** As the groups claim has it; null: anyone who signs in at the provider. */
  group: oneLine(200).nullable(),
  role: RoleName,
  /** The account that they join; null: one of their own. */
  account: Id.nullable(),
});
export type IdentityRule = z.infer<typeof IdentityRule>;

/** What happens to the keys of an account when its last member has lost access: nothing, or suspension. */
export const EMPTY_ACCOUNTS = ['keep', 'suspend'] as const;

export const IdentityProviderTerms = z.strictObject({
  /** On the button of the sign-in page. */
  label: oneLine(40),
  /** The issuer identifier, exactly as the provider's metadata states it. */
  issuer: z.url().max(500),
  client_id: oneLine(200),
  /** Asked for besides `openid`. */
  scopes: z.array(z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]{1,100}$/, 'must be a scope')).max(20),
  /** The claim with a person's groups: its name, or a path such as `realm_access.roles`. */
  groups_claim: oneLine(200),
  /** Whether a member with the same, verified email becomes the person's. */
  link_by_email: z.boolean(),
  /** A session ends after this, so that a person's groups are read again. */
  session_hours: z.int().min(1).max(720),
  empty_accounts: z.enum(EMPTY_ACCOUNTS),
  /** `private`: the provider may be on this machine or in a private network. */
  network: z.enum(['public', 'private']),
  rules: z.array(IdentityRule).min(1).max(RULES_MAX),
});
export type IdentityProviderTerms = z.infer<typeof IdentityProviderTerms>;

/** A provider was added or changed; all terms, in place of those before. Its secret is in no event. */
export const IdentityProviderConfigured = Control.extend({
  type: z.literal('identity_provider.configured'),
  provider: ProviderName,
  terms: IdentityProviderTerms,
});
export const IdentityProviderRemoved = Control.extend({
  type: z.literal('identity_provider.removed'),
  provider: ProviderName,
});

/** Who may sign in with a password. Administrators always may, so that a faulty provider locks no one out. */
export const PASSWORD_POLICIES = ['everyone', 'administrators'] as const;
export type PasswordPolicy = (typeof PASSWORD_POLICIES)[number];

export const SignInChanged = Control.extend({
  type: z.literal('sign_in.changed'),
  passwords: z.enum(PASSWORD_POLICIES),
});

export const IDENTITY_EVENTS = [IdentityProviderConfigured, IdentityProviderRemoved, SignInChanged] as const;
