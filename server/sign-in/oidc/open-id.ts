import * as oidc from 'openid-client';
import { z } from 'zod';
import type { IdentityProvider } from '#db/fold/identity.ts';
import { Email } from '#server/contract/session.ts';
import type { Logger } from '#db/diagnostics/logger.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { isStoreFault } from '#server/errors/store-fault.ts';
import type { Flow } from '#server/sign-in/oidc/flow-cookie.ts';
import { guardedFetch, PROVIDER_TIMEOUT_MS } from '#server/sign-in/oidc/guarded-fetch.ts';
import { CLOCK_TOLERANCE_S, SIGNATURES } from '#server/sign-in/oidc/issuer.ts';
import { groupsAreElsewhere, groupsIn } from '#server/sign-in/oidc/rules.ts';

/** Signing in at an OpenID provider: authorization code flow with PKCE, state and nonce. */

/** How long metadata is used before it is read again. */
const METADATA_MAX_MS = 60 * 60 * 1000;

/** A person, as a provider states them. */
export type Claims = {
  issuer: string;
  subject: string;
  /** Null: none, or one that the provider says is not verified. */
  email: string | null;
  /** Whether the provider says that the email is verified. */
  isEmailVerified: boolean;
  groups: string[];
};

type Opened = { version: number; untilMs: number; client: Promise<oidc.Configuration>; close: () => void };

/** Clients of the configured providers. Metadata and keys of each are kept for an hour. */
export class OpenId {
  readonly #opened = new Map<string, Opened>();
  readonly #log: Logger;

  constructor(log: Logger) {
    this.#log = log;
  }

  /** Begins a sign-in. @returns where the browser goes, and what the callback needs. */
  async begin(
    provider: IdentityProvider,
    secret: () => Promise<string | null>,
    redirectUri: string,
  ): Promise<{ url: string; flow: Pick<Flow, 'state' | 'nonce' | 'verifier'> } | ApiError> {
    const client = await this.#client(provider, secret).catch((error: unknown) =>
      this.#explain(provider, error),
    );
    if (client instanceof ApiError) return client;
    const flow = {
      state: oidc.randomState(),
      nonce: oidc.randomNonce(),
      verifier: oidc.randomPKCECodeVerifier(),
    };
    const url = oidc.buildAuthorizationUrl(client, {
      redirect_uri: redirectUri,
      scope: [...new Set(['openid', ...provider.terms.scopes])].join(' '),
      state: flow.state,
      nonce: flow.nonce,
      code_challenge: await oidc.calculatePKCECodeChallenge(flow.verifier),
      code_challenge_method: 'S256',
    });
    return { url: url.href, flow };
  }

  /**
   * Exchanges the code of a callback and verifies the ID token.
   * @param callback the redirect URI with the query that the browser brought.
   */
  async finish(
    provider: IdentityProvider,
    secret: () => Promise<string | null>,
    flow: Flow,
    callback: URL,
  ): Promise<Claims | ApiError> {
    try {
      return await readPerson(await this.#client(provider, secret), provider, flow, callback);
    } catch (error) {
      return this.#explain(provider, error);
    }
  }

  /** A failure of the provider, or of verification. The log line has only a code. */
  #explain({ name }: IdentityProvider, error: unknown): ApiError {
    if (isStoreFault(error)) return new ApiError('store_unavailable');
    const refusal = providerError(error);
    this.#log.warn(
      { provider: name, fault: faultOf(error), code: refusal.code },
      'sign-in through identity provider failed',
    );
    return refusal;
  }

  #client(provider: IdentityProvider, secret: () => Promise<string | null>): Promise<oidc.Configuration> {
    const { name, version } = provider;
    const known = this.#opened.get(name);
    if (known?.version === version && known.untilMs > performance.now()) return known.client;
    known?.close();
    const { fetch, close } = guardedFetch(provider.terms.network);
    const client = secret().then((text) => discover(provider, text, fetch));
    const opened = {
      version,
      untilMs: performance.now() + METADATA_MAX_MS,
      client,
      close: () => void close(),
    };
    this.#opened.set(name, opened);
    // The next sign-in retries a failed discovery.
    client.catch(() => {
      if (this.#opened.get(name) === opened) this.#opened.delete(name);
      opened.close();
    });
    return client;
  }
}

/** The provider left groups out of a token because there are too many. Without them no rule may decide. */
class GroupsOverageError extends Error {
  override name = 'GroupsOverageError';
}

/** The person of a callback. @throws errors of openid-client; see {@link providerError}. */
async function readPerson(
  client: oidc.Configuration,
  { terms: { groups_claim: groupsClaim } }: IdentityProvider,
  { state, nonce, verifier }: Flow,
  callback: URL,
): Promise<Claims> {
  const tokens = await oidc.authorizationCodeGrant(client, callback, {
    expectedState: state,
    expectedNonce: nonce,
    pkceCodeVerifier: verifier,
    idTokenExpected: true,
  });
  const idToken = tokens.claims() as oidc.IDToken;
  if (groupsAreElsewhere(idToken, groupsClaim)) throw new GroupsOverageError();
  const isComplete = groupsIn(idToken, groupsClaim) !== null && idToken['email'] !== undefined;
  const userInfo =
    isComplete || client.serverMetadata().userinfo_endpoint === undefined
      ? {}
      : await oidc.fetchUserInfo(client, tokens.access_token, idToken.sub);
  return readClaims({ ...userInfo, ...idToken }, groupsClaim);
}

async function discover(
  { terms: { issuer, client_id: clientId } }: IdentityProvider,
  secret: string | null,
  send: typeof fetch,
): Promise<oidc.Configuration> {
  const url = new URL(issuer);
  const insecure = url.protocol === 'http:' ? [oidc.allowInsecureRequests] : [];
  const discovered = await oidc.discovery(url, clientId, undefined, oidc.None(), {
    [oidc.customFetch]: send as oidc.CustomFetch,
    timeout: PROVIDER_TIMEOUT_MS / 1_000,
    execute: insecure,
  });
  const { supportsPKCE: _, ...found } = discovered.serverMetadata();
  const server = {
    ...found,
    id_token_signing_alg_values_supported: (found.id_token_signing_alg_values_supported ?? ['RS256']).filter(
      (algorithm) => SIGNATURES.includes(algorithm),
    ),
  };
  const client = new oidc.Configuration(
    server,
    clientId,
    { [oidc.clockTolerance]: CLOCK_TOLERANCE_S },
    secret === null ? oidc.None() : authenticationOf(found.token_endpoint_auth_methods_supported)(secret),
  );
  client[oidc.customFetch] = send as oidc.CustomFetch;
  client.timeout = PROVIDER_TIMEOUT_MS / 1_000;
  for (const apply of insecure) apply(client);
  // Verifies the signature of ID tokens, whatever connection they came over.
  oidc.enableNonRepudiationChecks(client);
  return client;
}

/** OpenID's default is basic; some providers take only the body. */
const authenticationOf = (methods: readonly string[] = ['client_secret_basic']) =>
  !methods.includes('client_secret_basic') && methods.includes('client_secret_post')
    ? oidc.ClientSecretPost
    : oidc.ClientSecretBasic;

const Person = z.object({ iss: z.string().max(500), sub: z.string().min(1).max(255) });

function readClaims(claims: Readonly<Record<string, unknown>>, groupsClaim: string): Claims {
  const { iss: issuer, sub: subject } = Person.parse(claims);
  const email = Email.safeParse(claims['email']);
  const isRefuted = claims['email_verified'] === false || claims['email_verified'] === 'false';
  return {
    issuer,
    subject,
    email: email.success && !isRefuted ? email.data : null,
    isEmailVerified: claims['email_verified'] === true || claims['email_verified'] === 'true',
    groups: groupsIn(claims, groupsClaim) ?? [],
  };
}

/** The error that a failed request to a provider, or a failed verification, is answered with. */
function providerError(error: unknown): ApiError {
  if (error instanceof oidc.AuthorizationResponseError) return new ApiError('provider_denied');
  if (error instanceof oidc.ResponseBodyError && error.status < 500)
    return new ApiError('provider_response_invalid');
  if (error instanceof z.ZodError || error instanceof GroupsOverageError)
    return new ApiError('provider_response_invalid');
  const code = (error as { code?: unknown } | null)?.code;
  const isInvalid = typeof code === 'string' && INVALID.has(code);
  return new ApiError(isInvalid ? 'provider_response_invalid' : 'provider_unavailable');
}

/** What openid-client calls a response that failed a check. */
const INVALID: ReadonlySet<string> = new Set([
  'OAUTH_INVALID_RESPONSE',
  'OAUTH_JWT_CLAIM_COMPARISON_FAILED',
  'OAUTH_JWT_TIMESTAMP_CHECK_FAILED',
  'OAUTH_JWT_USERINFO_EXPECTED',
  'OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED',
  'OAUTH_KEY_SELECTION_FAILED',
  'OAUTH_PARSE_ERROR',
  'OAUTH_UNSUPPORTED_OPERATION',
  'OAUTH_INVALID_REQUEST',
]);

/** A word for the log: nothing that the provider or the browser wrote. */
function faultOf(error: unknown): string {
  const { code, name } = error as { code?: unknown; name?: unknown };
  const word = typeof code === 'string' ? code : name;
  return typeof word === 'string' && /^[A-Za-z0-9_]{1,64}$/.test(word) ? word : 'failed';
}
