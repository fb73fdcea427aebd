import express, { type Request, type Response, type Router } from 'express';
import type { IdentityProvider } from '#db/fold/identity.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import { errorOf } from '#server/dashboard/gate.ts';
import { ApiError, type ErrorCode } from '#server/errors/api-error.ts';
import { replyOf } from '#server/http/respond.ts';
import { admitIdentity } from '#server/sign-in/oidc/admit.ts';
import { openClientSecret } from '#server/sign-in/oidc/client-secret.ts';
import { clearFlow, FLOW_MAX_MS, readFlow, safeNext, setFlow } from '#server/sign-in/oidc/flow-cookie.ts';
import type { OpenId } from '#server/sign-in/oidc/open-id.ts';
import { networkOf } from '#server/sign-in/origin.ts';

/**
 * Signing in through an identity provider: two pages that redirect. They are no routes of the API, since the
 * browser comes to the second one from the provider's site.
 */

const START = '/sign-in/:provider/start';
const CALLBACK = '/sign-in/:provider/callback';

/** Where a provider sends browsers back to. Never from the Host header, which anyone may send. */
export const redirectUriOf = ({ origin }: Pick<Dashboard, 'origin'>, provider: string): string =>
  `${origin()}/sign-in/${provider}/callback`;

export function providerSignIn(dashboard: Dashboard): Router {
  const {
    config,
    control,
    log,
    signIn: { anonymousPool, sessions, throttle },
    relay: { readModel, pepper },
  } = dashboard;
  let opened: Promise<OpenId> | undefined;
  /** Loaded on demand: most installations have no identity provider. */
  const openId = (): Promise<OpenId> =>
    (opened ??= import('#server/sign-in/oidc/open-id.ts').then((module) => new module.OpenId(log)));
  const sealed = { reach: config, pepper };
  const secretOf = (name: string) => () => openClientSecret(anonymousPool, pepper, name);
  const router = express.Router({ caseSensitive: true });

  async function start(request: Request, response: Response, provider: IdentityProvider) {
    const client = await openId();
    const redirectUri = redirectUriOf(dashboard, provider.name);
    const begun = await client.begin(provider, secretOf(provider.name), redirectUri);
    if (begun instanceof ApiError) return begun;
    const { url, flow } = begun;
    const next = safeNext(request.query['next']);
    const expiresMs = readModel.nowMs() + FLOW_MAX_MS;
    setFlow(request, response, sealed, provider.name, { ...flow, next, expiresMs });
    redirect(response, url);
    return null;
  }

  async function finish(request: Request, response: Response, provider: IdentityProvider) {
    const flow = readFlow(request, sealed, provider.name, readModel.nowMs());
    // A code is exchanged once, also if that fails.
    clearFlow(request, response, config);
    if (flow === null) return new ApiError('sign_in_expired');
    const throttled = await throttle.count('provider', networkOf(request, config.trustedProxies));
    if (throttled) return throttled;
    const callback = new URL(redirectUriOf(dashboard, provider.name));
    callback.search = new URL(request.originalUrl, callback).search;
    const client = await openId();
    const claims = await client.finish(provider, secretOf(provider.name), flow, callback);
    if (claims instanceof ApiError) return claims;
    const refused = await admitIdentity({ control, readModel, sessions }, provider, claims, {
      request,
      response,
    });
    if (refused) return refused;
    redirect(response, flow.next);
    return null;
  }

  for (const [path, act] of [
    [START, start],
    [CALLBACK, finish],
  ] as const) {
    router.get(path, async (request, response) => {
      response.setHeader('cache-control', 'no-store');
      response.setHeader('referrer-policy', 'no-referrer');
      const provider = readModel.identities.get(request.params['provider']);
      const failed = provider
        ? await act(request, response, provider).catch((error: unknown) => {
            const refusal = errorOf(error);
            if (!refusal) throw error;
            return refusal;
          })
        : new ApiError('not_found');
      if (failed) redirect(response, `/sign-in?error=${errorCode(failed)}`);
    });
  }
  return router;
}

const errorCode = ({ code }: ApiError): ErrorCode => code;

function redirect(response: Response, location: string): void {
  response.writeHead(303, ['location', location, 'x-request-id', replyOf(response).requestId]);
  response.end();
}
