import { z } from 'zod';

/** What events are made of: ids, names, times, and who caused them. Pure. */

/** An account's or a key's public id. */
export const Id = z.string().regex(/^[0-9A-Za-z]{8}$/);
export const RequestId = z.uuid();
export const Count = z.int().min(0);
/** Times inside a body are ISO 8601 in UTC. The time of the event itself is the log's own `at`. */
export const Time = z.iso.datetime();
/** HMAC-SHA-256 of a secret under the installation's pepper, in hex. Never the secret. */
export const Digest = z.string().regex(/^[0-9a-f]{64}$/);

/** Model and upstream names are printable ASCII: they go into the hashed row text as they are. */
export const MODEL_NAME = /^[\x20-\x7e]{1,256}$/;
export const ModelName = z.string().regex(MODEL_NAME);
export const UPSTREAM_NAME = /^[a-z0-9][a-z0-9._-]{0,63}$/;
export const UpstreamName = z.string().regex(UPSTREAM_NAME);
/** What a provider calls something of its own: a request, a finish reason, a service tier. */
export const PROVIDER_TEXT = /^[\x20-\x7e]{1,128}$/;
export const ProviderText = z.string().regex(PROVIDER_TEXT);
/** The keyed pseudonym of an end user, a session or a tag. */
export const Pseudonym = z.string().regex(/^[0-9A-Za-z]{16}$/);
export const AccountName = z.string().trim().min(1).max(100);
export const PlanName = z.string().regex(/^[a-z0-9][a-z0-9._-]{0,63}$/);
export const KeyName = z.string().trim().min(1).max(100);

/** The permissions of a signed-in user. Members see their own account; the other roles see all accounts. */
export const ROLES = ['member', 'administrator', 'auditor'] as const;
export type Role = (typeof ROLES)[number];
export const RoleName = z.enum(ROLES);

/**
 * Who can register an account: anyone, only people with a link from an administrator, or no one; with
 * `closed` the sign-up page says so.
 */
export const REGISTRATION_POLICIES = ['open', 'invite', 'closed'] as const;
export type RegistrationPolicy = (typeof REGISTRATION_POLICIES)[number];

/**
 * Who caused a control event: `command-line`, `first-start`, `worker`, `registration`, `member/<id>`,
 * `management_key/<id>` or `identity_provider/<name>`.
 */
export const Actor = z.string().regex(/^[a-z][a-z0-9/._-]{0,99}$/i);
export const Control = z.object({ actor: Actor });

/** The levels of accounts: an account, its parent and that one's. */
export const ACCOUNT_LEVELS = 3;

/** The size of a request: its reservation follows from it, from its body's size and from its terms. */
export const RequestSize = {
  /** The tokens reserved for the prompt: an estimate, or under a hard limit an upper bound. */
  prompt_estimate: Count.optional(),
  /** The request's own limit on its reply, over all choices; absent: it has none. */
  max_output_tokens: Count.optional(),
};

/** The size of the first of rejected requests; absent where it was rejected before its limits were known. */
export const RejectedSize = {
  body_bytes: Count.optional(),
  /** The tokens that it would have reserved. */
  hold_tokens: Count.optional(),
  ...RequestSize,
  admitted_minute: Count.optional(),
};
