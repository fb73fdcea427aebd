import { z } from 'zod';
import { ModelName } from '#db/events/parts.ts';
import { PricesShape } from '#db/events/events.ts';
import type { Prices } from '#db/money.ts';
import { ModelTerms } from '#db/events/upstream-events.ts';
import type { Change } from '#server/contract/keys.ts';

/**
 * `GET /api/models`, a list: what the account's calls may ask for, and at which price (micro-dollars for a
 * million tokens).
 */
export type ModelRow = {
  id: string;
  upstream: string;
  prices: Prices | null;
};
/**
 * One in `GET /api/dispatch`, a list by name, for administrators and auditors: a model that was defined. Any
 * other name goes to the first upstream that lists it.
 */
export type ModelRoute = { model: string; terms: ModelTerms; position: number };
/** `PUT /api/dispatch`: where the calls of a model go, the first time or anew. */
export const DefineModel = z.strictObject({ model: ModelName, terms: ModelTerms });
/**
 * `POST /api/dispatch/retire`: it has no directions of its own any more. 409 `not_allowed` where an alias
 * would lead nowhere.
 */
export const RetireModel = z.strictObject({ model: ModelName });
/** One in `GET /api/prices`, a list by name; auditors see it too. Micro-dollars for a million tokens. */
export type PriceRow = { model: string; prices: Prices; source: string; version: number };
/** `PUT /api/prices` */
export const PutPrice = z.strictObject({ model: ModelName, prices: PricesShape });
/**
 * `POST /api/prices/import` → {@link PriceImportResult}: from the list that is installed, of these providers;
 * none: those that the upstreams' addresses belong to.
 */
export const ImportPrices = z.strictObject({
  dry_run: z.boolean(),
  replace_manual: z.boolean().default(false),
  providers: z.array(z.string().max(100)).max(50).default([]),
});
/** What an import has changed, or would; `kept_manual`: set by hand to something else, and left so. */
export type PriceImportResult = Change & {
  object: 'price_import';
  source: string;
  providers: string[];
  dry_run: boolean;
  changed: { model: string; before: Prices | null; after: Prices; notes: readonly string[] }[];
  kept_manual: { model: string; set: Prices; offered: Prices }[];
  unchanged: number;
  skipped: { provider: string; model: string; reason: string }[];
};
