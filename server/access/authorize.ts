import type { Account } from '#db/fold/account.ts';
import type { Key } from '#db/fold/key.ts';
import type { Access } from '#server/read-model/access.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { isWithin } from '#server/access/networks.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';
import type { RequestContext } from '#server/access/request-context.ts';

/**
 * Permissions of an active key: a 403 for each that is missing, or null. Pure, and evaluated for every
 * request, so it costs next to nothing where nothing is restricted. Each message says which permission is
 * missing and which administrator to ask: the key is valid, and a retry doesn't help.
 */

const SUSPENDED = new ApiError('account_disabled');
const OUTDATED = new ApiError('relay_outdated');
const TEXT_MAX = 100;

/** Whether the key may be used by this caller at all: account, plan, route, origin, network. */
export function authorize(key: Key, caller: RequestContext, readModel: ReadModel): ApiError | null {
  const refusal = authorizeAnywhere(key, caller, readModel);
  if (refusal !== null || key.terms === null) return refusal;
  const networks = readModel.keyAccess(key)?.networks ?? null;
  return networks === null || isWithin(networks, caller.address) ? null : refuseNetwork(caller.address);
}

/** The same without a look at the caller's address. */
export function authorizeAnywhere(
  key: Key,
  { route, origin }: Omit<RequestContext, 'address'>,
  readModel: ReadModel,
): ApiError | null {
  if (readModel.unappliedOf(key)) return OUTDATED;
  const account = readModel.account(key.account);
  if (account?.state !== 'active') return SUSPENDED;
  const ofAccount = readModel.accountAccess(account);
  const ofKey = readModel.keyAccess(key);
  if (ofAccount === null && ofKey === null) return null;
  if (ofAccount !== null && !ofAccount.isActive) return refusePlan(account);

  const routeBy = refuser(ofAccount, ofKey, ({ permissions }) => permissions?.routes?.has(route) ?? true);
  if (routeBy)
    return new ApiError('route_not_permitted', {
      message: `${routeBy.subject} may not use the route ${route}. ${routeBy.ask}`,
    });
  const originBy = refuser(ofAccount, ofKey, ({ permissions }) => permissions?.origins?.has(origin) ?? true);
  return originBy && refuseOrigin(originBy, origin);
}

/** Whether the key may use this model. The error doesn't depend on whether an upstream serves the model. */
export function authorizeModel(key: Key, model: string, readModel: ReadModel): ApiError | null {
  if (readModel.unapplied.ofModel(model)) return OUTDATED;
  const account = readModel.account(key.account);
  const ofAccount = account ? readModel.accountAccess(account) : null;
  const ofKey = readModel.keyAccess(key);
  if (ofAccount === null && ofKey === null) return null;
  const by = refuser(ofAccount, ofKey, ({ permissions }) => permissions?.models?.has(model) ?? true);
  if (!by) return null;
  const message = [
    `${by.subject} may not use the model "${printable(model)}".`,
    `GET /v1/models lists those that it may. ${by.ask}`,
  ].join(' ');
  return new ApiError('model_not_permitted', { message, param: 'model' });
}

type Refuser = { subject: string; ask: string };

const BY_ACCOUNT: Refuser = {
  subject: 'The key is valid, but its account',
  ask: 'Ask the administrator of this relay.',
};
const BY_KEY: Refuser = {
  subject: 'The key is valid, but it',
  ask: "Ask the administrator of the account's keys, or use another key.",
};

/** Whose terms stand against it; null: both the account's and the key's let it pass. */
function refuser(
  ofAccount: Access | null,
  ofKey: Access | null,
  permits: (access: Access) => boolean,
): Refuser | null {
  if (ofAccount !== null && !permits(ofAccount)) return BY_ACCOUNT;
  return ofKey !== null && !permits(ofKey) ? BY_KEY : null;
}

function refusePlan({ plan }: Account): ApiError {
  const message = [
    `The key is valid, but the plan "${plan}" of its account is retired.`,
    'Ask the administrator of this relay to put the account on another one.',
  ].join(' ');
  return new ApiError('plan_not_active', { message });
}

function refuseOrigin({ subject, ask }: Refuser, origin: string | null): ApiError {
  const message =
    origin === null
      ? [
          `${subject} may be used from certain web origins only, and this call has no Origin header.`,
          `Browsers send one; other programs need "none" among the permitted origins. ${ask}`,
        ].join(' ')
      : `${subject} may not be used from the origin ${printable(origin)}. ${ask}`;
  return new ApiError('origin_not_allowed', { message });
}

function refuseNetwork(address: string): ApiError {
  const message =
    address === ''
      ? [
          `${BY_KEY.subject} may be used from certain networks only,`,
          `and the address of this call is not known. ${BY_KEY.ask}`,
        ].join(' ')
      : `${BY_KEY.subject} may not be used from the address ${printable(address)}. ${BY_KEY.ask}`;
  return new ApiError('network_not_allowed', { message });
}

/** What a client sent, fit for a message. */
function printable(text: string): string {
  const plain = text.slice(0, TEXT_MAX).replace(/[^\x20-\x7e]/g, '?');
  return text.length > TEXT_MAX ? `${plain}...` : plain;
}
