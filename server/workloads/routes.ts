import express, { type Request, type Response, type Router } from 'express';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import { isStoreFault } from '#server/errors/store-fault.ts';
import { replyOf, sendJsonWith } from '#server/http/respond.ts';
import { networkOf } from '#server/sign-in/origin.ts';
import { FORM_BYTES_MAX } from '#server/workloads/bounds.ts';
import type { TokenExchange } from '#server/workloads/exchange.ts';
import { isRefusal, type Refusal, UNAVAILABLE } from '#server/workloads/verify-token.ts';

/** `POST /oauth/token`: a token exchange in the form of RFC 8693. */

export const TOKEN_ROUTE = '/oauth/token';
const GRANT = 'urn:ietf:params:oauth:grant-type:token-exchange';
const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token';
const SUBJECT_TYPES = ['urn:ietf:params:oauth:token-type:jwt', 'urn:ietf:params:oauth:token-type:id_token'];
const PARAMETERS_MAX = 20;
const RETRY_S = '5';

const STATUS: Record<Refusal['error'], number> = {
  invalid_request: 400,
  invalid_target: 400,
  unsupported_grant_type: 400,
  slow_down: 429,
  temporarily_unavailable: 503,
};

export function tokenRoute({ config, relay, signIn, log }: Dashboard): Router {
  let opened: Promise<TokenExchange> | undefined;
  /** Loaded on demand: most installations have no workloads. */
  const tokens = (): Promise<TokenExchange> =>
    (opened ??= import('#server/workloads/exchange.ts').then(
      (module) => new module.TokenExchange(relay, signIn.anonymousPool),
    ));
  const readForm = express.urlencoded({
    extended: false,
    limit: FORM_BYTES_MAX,
    parameterLimit: PARAMETERS_MAX,
    inflate: false,
  });

  async function answer(request: Request, response: Response): Promise<void> {
    const throttled = await signIn.throttle.count('exchange', networkOf(request, config.trustedProxies));
    if (throttled) return refuse(response, throttled.status === 429 ? TOO_OFTEN : UNAVAILABLE);
    const failed = await new Promise<unknown>((resolve) => {
      readForm(request, response, resolve);
    });
    const form = failed ? null : readParameters(request.body);
    if (form === null)
      return refuse(response, badRequest('Send a form of at most 24 KiB, each parameter once.'));
    if ('error' in form) return refuse(response, form);
    const exchange = await tokens();
    const issued = await exchange.exchange(form.token, form.workload, replyOf(response).requestId);
    if (isRefusal(issued)) return refuse(response, issued);
    sendJsonWith(response, 200, NO_STORE, {
      access_token: issued.secret,
      issued_token_type: ACCESS_TOKEN,
      token_type: 'Bearer',
      expires_in: issued.expiresInS,
    });
  }

  function refuse(response: Response, { error, description, reason }: Refusal): void {
    log.info({ request: replyOf(response).requestId, reason }, 'token exchange refused');
    const status = STATUS[error];
    const retry = status === 400 ? [] : ['retry-after', RETRY_S];
    sendJsonWith(response, status, [...NO_STORE, ...retry], { error, error_description: description });
  }

  const router = express.Router({ caseSensitive: true });
  router.post(TOKEN_ROUTE, async (request, response) => {
    try {
      await answer(request, response);
    } catch (error) {
      if (!isStoreFault(error)) throw error;
      refuse(response, UNAVAILABLE);
    }
  });
  return router;
}

const TOO_OFTEN: Refusal = {
  error: 'slow_down',
  description: 'Too many exchanges from this network. Wait before the next one.',
  reason: 'too_often',
};
const NO_STORE = ['cache-control', 'no-store'];

const badRequest = (description: string, error: Refusal['error'] = 'invalid_request'): Refusal => ({
  error,
  description,
  reason: 'malformed',
});

type Parameters = { token: string; workload: string | null };

/** The parameters of a token exchange; null: no form, or one with a parameter sent twice. */
function readParameters(body: unknown): Parameters | Refusal | null {
  if (typeof body !== 'object' || body === null) return null;
  const form = new Map(Object.entries(body));
  if ([...form.values()].some((value) => typeof value !== 'string')) return null;
  const text = (name: string): string => String(form.get(name) ?? '');
  if (text('grant_type') !== GRANT)
    return badRequest(`The grant_type must be ${GRANT}.`, 'unsupported_grant_type');
  if (!SUBJECT_TYPES.includes(text('subject_token_type')))
    return badRequest(`The subject_token_type must be ${SUBJECT_TYPES[0]}.`);
  if (text('subject_token') === '') return badRequest('The subject_token is missing.');
  if (form.has('actor_token')) return badRequest('An actor_token is not supported.');
  if (form.has('requested_token_type') && text('requested_token_type') !== ACCESS_TOKEN)
    return badRequest(`The requested_token_type must be ${ACCESS_TOKEN}.`);
  return { token: text('subject_token'), workload: form.has('workload') ? text('workload') : null };
}
