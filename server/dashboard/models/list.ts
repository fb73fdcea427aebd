import type { Account } from '#db/fold/account.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';
import { listOf } from '#server/contract/parts.ts';
import { ModelRow } from '#server/contract/models.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import { type ApiRoute, ANY_ROLE, route } from '#server/dashboard/gate.ts';
import { authorizePrice } from '#server/access/authorize-price.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { callPriceOf, pricingOf, termsForPlan } from '#server/read-model/call-price.ts';

const NO_ACCOUNT = new ApiError('not_allowed', {
  message: 'The models are those of an account. Use a management key of one account.',
});

/** Route for the models that the member's account may use, with prices. A key may be restricted to fewer. */
export function modelRoutes({ relay: { readModel }, modelList }: Dashboard): ApiRoute[] {
  return [
    route(
      'get',
      '/api/v1/models',
      'prices:read',
      ANY_ROLE,
      { reply: listOf(ModelRow) },
      async (_call, { ownAccount: id }) => {
        if (id === null) return NO_ACCOUNT;
        const account = readModel.account(id);
        if (!account || !readModel.isCurrent()) return new ApiError('store_unavailable');
        const pricing = pricingOf(readModel, id);
        const mayUse = modelsOf(readModel, account);
        const data = (await modelList.read())
          .filter(({ model }) => mayUse(model))
          .map(({ model, upstream }): ModelRow => ({
            id: model,
            upstream,
            price: termsForPlan(readModel.prices, pricing, model),
          }));
        return { object: 'list', data };
      },
    ),
  ];
}

/** Whether the account may use a model, as far as its terms and the prices say. */
export function modelsOf(readModel: ReadModel, account: Account): (model: string) => boolean {
  const access = readModel.accountAccess(account);
  const pricing = pricingOf(readModel, account.id);
  const limits = access?.limits ? [access.limits] : [];
  return (model) =>
    (access === null || (access.isActive && (access.permissions?.models?.has(model) ?? true))) &&
    authorizePrice(callPriceOf(readModel, pricing, model), pricing, limits) === null;
}
