import { ChangeReply, listOf } from '#server/contract/parts.ts';
import { ImportPrices, PriceImportResult, PriceRow, PutPrice } from '#server/contract/models.ts';
import { makeChange } from '#server/dashboard/change.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import { ADMINISTRATORS, type ApiRoute, ADMINISTRATORS_AND_AUDITORS, route } from '#server/dashboard/gate.ts';
import { unavailable } from '#server/read/store.ts';
import { importResult } from '#server/control/import-result.ts';
import { ApiError } from '#server/errors/api-error.ts';

const STALE = unavailable('Price data');

/** Prices: administrators set them, auditors look. */
export function priceRoutes(dashboard: Dashboard): ApiRoute[] {
  const { readModel } = dashboard.relay;
  return [
    route(
      'get',
      '/api/v1/prices',
      'prices:read',
      ADMINISTRATORS_AND_AUDITORS,
      { reply: listOf(PriceRow) },
      async () => {
        if (!readModel.isCurrent()) return STALE;
        const data = readModel.prices.all.map(({ pattern, plan, terms, source, version }): PriceRow => ({
          model: pattern,
          plan,
          ...terms,
          source,
          version,
        }));
        return { object: 'list', data };
      },
    ),

    route(
      'put',
      '/api/v1/prices',
      'prices:write',
      ADMINISTRATORS,
      { body: PutPrice, reply: ChangeReply },
      ({ body }, who) => {
        const { model, plan, ...terms } = body;
        return makeChange(dashboard, who, (control) => control.setPrice(model, terms, plan));
      },
    ),

    route(
      'post',
      '/api/v1/prices/import',
      'prices:write',
      ADMINISTRATORS,
      { body: ImportPrices, reply: PriceImportResult },
      async ({ body }, who) => {
        const { dry_run: dryRun, providers, replace_manual: replaceManual } = body;
        // Some megabytes that a server needs for this alone.
        const { offerPrices } = await import('#server/read-model/price-import.ts');
        // Outside the control lock, since this is slow.
        const offered = offerPrices(providers, undefined, dashboard.config);
        const plan = await makeChange(dashboard, who, (control) =>
          control.importPrices(offered.offers, { replaceManual, dryRun }),
        );
        if (plan instanceof ApiError) return plan;
        const result: PriceImportResult = {
          object: 'price_import',
          ...importResult(offered, dryRun, plan),
          event: plan.event,
        };
        return result;
      },
    ),
  ];
}
