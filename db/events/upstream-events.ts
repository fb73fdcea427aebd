import { z } from 'zod';
import { Control, Count, Id, ModelName, ProviderText, UpstreamName } from '#db/events/parts.ts';
import { USAGE_SOURCE_NAMES, UsageDetails } from '#db/events/usage-details.ts';
import { RELAYED_ROUTES } from '#db/limits/limits.ts';

/**
 * Events of upstreams, and of the models that are dispatched to them. A credential's secret is never in them.
 */

/**
 * The wire protocols for upstreams: OpenAI's chat completions and responses, Anthropic's messages, Gemini's
 * `generateContent`, or the protocol of an AI SDK package that the operator chooses.
 */
export const PROVIDERS = ['openai', 'anthropic', 'gemini', 'bridge'] as const;
export type ProviderName = (typeof PROVIDERS)[number];

/** Providers whose headers, paths, usage or errors differ within one protocol. */
export const DIALECTS = [
  'openai',
  'azure',
  'openrouter',
  'vllm',
  'ollama',
  'lmstudio',
  'groq',
  'mistral',
  'deepseek',
  'gemini',
  'other',
] as const;
export type Dialect = (typeof DIALECTS)[number];

const PATTERNS_MAX = 200;
const TARGETS_MAX = 16;
const OPTIONS_MAX = 20;
/** Of one call, over all upstreams; each takes a share of the same time. */
export const ATTEMPTS_MAX = 6;
export const RETRIES_MAX = 3;
export const WEIGHT_MAX = 1_000;

const isPlainUrl = (text: string): boolean => {
  const url = URL.parse(text);
  return url !== null && url.username === '' && url.password === '' && url.search === '' && url.hash === '';
};
/** Without a slash at its end; paths of the protocol are put behind it. */
export const BaseUrl = z
  .string()
  .max(500)
  .regex(/^https?:\/\/[\x21-\x7e]+$/, 'must begin with http:// or https://')
  .refine(isPlainUrl, 'must be a URL without user, query or fragment')
  .transform((text) => text.replace(/\/+$/, ''));

/** A model's name, with `*` for any run of characters. */
export const ModelPattern = z
  .string()
  .regex(/^[\x20-\x7e]{1,256}$/, 'must be a model name or a pattern with *');

/** The member of a request that a limit on the reply is set in where the client sent none. */
export const TokenLimitMember = z.enum(['max_tokens', 'max_completion_tokens']);
export type TokenLimitMember = z.infer<typeof TokenLimitMember>;

/** What an upstream is and how it is used, before its parts are compared with one another. */
export const UPSTREAM_TERMS = z.strictObject({
  provider: z.enum(PROVIDERS),
  /** Of the provider `openai` alone; absent: `other`. */
  dialect: z.enum(DIALECTS).optional(),
  /** Absent only with `bridge`, whose package knows where its provider is. */
  base_url: BaseUrl.optional(),
  /** The npm package that `bridge` loads. */
  package: z
    .string()
    .regex(/^(@[a-z0-9][a-z0-9._-]*\/)?[a-z0-9][a-z0-9._-]*$/, 'must be the name of an npm package')
    .max(100)
    .optional(),
  /** Options of that package besides the credential, such as a region. Never a secret. */
  options: z
    .record(z.string().regex(/^[A-Za-z]\w{0,63}$/), z.union([z.string().max(500), z.number(), z.boolean()]))
    .refine((options) => Object.keys(options).length <= OPTIONS_MAX, `has more than ${OPTIONS_MAX} members`)
    .optional(),
  /** Models that it serves under the names that clients request; others can be routed to it as well. */
  models: z.array(ModelPattern).max(PATTERNS_MAX).default([]),
  /** The routes that it supports; absent: those of its dialect. */
  routes: z.array(z.enum(RELAYED_ROUTES)).max(RELAYED_ROUTES.length).optional(),
  token_limit: TokenLimitMember.optional(),
  /** `private`: its address may lie in a private network or on this machine. Metadata services never may. */
  network: z.enum(['public', 'private']).default('public'),
  /**
   * What happens to the upstream request when the client disconnects: it is canceled, or read to its end so
   * that its cost is known.
   */
  on_client_disconnect: z.enum(['cancel', 'drain']).default('cancel'),
  /**
   * How often the relay retries a request before the first byte; the clients' SDKs have retries of their own.
   */
  retries: z.int().min(0).max(RETRIES_MAX).default(0),
  /** Nothing is sent to it. */
  paused: z.boolean().default(false),
});
export const UpstreamTerms = UPSTREAM_TERMS.refine(
  ({ provider, base_url }) => provider === 'bridge' || base_url !== undefined,
  { path: ['base_url'], message: 'is missing' },
)
  .refine(({ provider, dialect }) => provider === 'openai' || dialect === undefined, {
    path: ['dialect'],
    message: 'is for the provider openai',
  })
  .refine((terms) => (terms.provider === 'bridge') === (terms.package !== undefined), {
    path: ['package'],
    message: 'is for the provider bridge, which needs it',
  });
export type UpstreamTerms = z.infer<typeof UpstreamTerms>;

/** One place where a model's calls may go. */
const Target = z.strictObject({
  upstream: UpstreamName,
  /** What the upstream calls the model; absent: the same. */
  model: ModelName.optional(),
  /** Its share among the targets of the same order. 0: it is tried only when the others have failed. */
  weight: z.int().min(0).max(WEIGHT_MAX).default(1),
  /** Targets of a higher order are tried when those before have failed. */
  order: z.int().min(0).max(TARGETS_MAX).default(0),
});
export type Target = z.infer<typeof Target>;

/** Where the calls of a public model name go. */
export const ModelTerms = z.union([
  z.strictObject({ targets: z.array(Target).min(1).max(TARGETS_MAX) }),
  z.strictObject({ alias_of: ModelName }),
]);
export type ModelTerms = z.infer<typeof ModelTerms>;

/** The label by which people recognize a credential. */
export const CredentialLabel = z.string().trim().min(1).max(100);

export const UpstreamAdded = Control.extend({
  type: z.literal('upstream.added'),
  upstream: UpstreamName,
  terms: UpstreamTerms,
});
/** Its terms, all of them, in place of those it had. */
export const UpstreamChanged = Control.extend({
  type: z.literal('upstream.changed'),
  upstream: UpstreamName,
  terms: UpstreamTerms,
});
/** With its credentials. One of the same name may be added again. */
export const UpstreamRemoved = Control.extend({
  type: z.literal('upstream.removed'),
  upstream: UpstreamName,
});
export const UpstreamCredentialAdded = Control.extend({
  type: z.literal('upstream.credential_added'),
  upstream: UpstreamName,
  credential: Id,
  label: CredentialLabel,
  /** Empty if the secret is too short to show a part. */
  last4: z.string().max(4),
  /** `billing`: it reads the provider's bills, and no call is sent with it. Absent: calls are. */
  purpose: z.literal('billing').optional(),
});
export const UpstreamCredentialRemoved = Control.extend({
  type: z.literal('upstream.credential_removed'),
  upstream: UpstreamName,
  credential: Id,
});

/** Creates or replaces the definition of a model. */
export const ModelDefined = Control.extend({
  type: z.literal('model.defined'),
  model: ModelName,
  terms: ModelTerms,
});
/** Its name is again served by whichever upstream lists it, if any. */
export const ModelRetired = Control.extend({ type: z.literal('model.retired'), model: ModelName });

/** One try of a call at an upstream, in the order of trying. */
export const Attempt = z.strictObject({
  upstream: UpstreamName,
  credential: Id.optional(),
  /** How it ended: `delivered`, a status of the upstream, or a transport error. */
  outcome: z.string().regex(/^[a-z0-9_]{1,40}$/),
  duration_ms: z.int().min(0),
  /** What the upstream calls the model, where it is another name. */
  upstream_model: ModelName.optional(),
  /** The usage that the upstream may charge for, by the fields of `request.settled`; absent counts are 0. */
  usage_source: z.enum(USAGE_SOURCE_NAMES).optional(),
  input_tokens: Count.optional(),
  cache_read_tokens: Count.optional(),
  cache_write_tokens: Count.optional(),
  output_tokens: Count.optional(),
  reasoning_tokens: Count.optional(),
  usage_details: UsageDetails.optional(),
  upstream_cost_nanousd: Count.optional(),
  stated_cost_nanousd: Count.optional(),
  answered_model: ModelName.optional(),
  provider_request: ProviderText.optional(),
});
export type Attempt = z.infer<typeof Attempt>;
