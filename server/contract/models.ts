import { z } from 'zod';
import { ModelName, PlanName } from '#db/events/parts.ts';
import { PriceShape } from '#db/events/price-events.ts';
import type { PriceTerms } from '#db/pricing/parts.ts';
import { ModelTerms } from '#db/events/upstream-events.ts';
import type { Change } from '#server/contract/keys.ts';

/**
 * `GET /api/v1/models`, a list: models that the account's calls may use, with what the account is charged, in
 * nano-dollars.
 */
export type ModelRow = {
  id: string;
  upstream: string;
  price: PriceTerms | null;
};
/**
 * One in `GET /api/v1/dispatch`, a list by name, for administrators and auditors: a model with its own
 * routing. Other names go to the first upstream that lists them.
 */
export type ModelRoute = { model: string; terms: ModelTerms; position: number };
/** `PUT /api/v1/dispatch`: defines or replaces the routing of a model. */
export const DefineModel = z.strictObject({ model: ModelName, terms: ModelTerms });
/**
 * `POST /api/v1/dispatch/retire`: removes the routing of a model. 409 `not_allowed` if an alias would lead
 * nowhere.
 */
export const RetireModel = z.strictObject({ model: ModelName });
/**
 * One in `GET /api/v1/prices`, a list by name; auditors may read it. `plan`: whose accounts are charged this;
 * null: it is what the provider charges.
 */
export type PriceRow = PriceTerms & {
  model: string;
  plan: string | null;
  source: string;
  version: number;
};
/** `PUT /api/v1/prices` */
export const PutPrice = z.strictObject({ model: ModelName, plan: PlanName.optional(), ...PriceShape });
/**
 * `POST /api/v1/prices/import` → {@link PriceImportResult}: from the installed price list. `providers`: empty
 * means those of the configured upstreams.
 */
export const ImportPrices = z.strictObject({
  dry_run: z.boolean(),
  replace_manual: z.boolean().default(false),
  providers: z.array(z.string().max(100)).max(50).default([]),
});
/** The changes of an import, or of a dry run; `kept_manual`: prices that were set manually and were kept. */
export type PriceImportResult = Change & {
  object: 'price_import';
  source: string;
  providers: string[];
  dry_run: boolean;
  changed: { model: string; before: PriceTerms | null; after: PriceTerms; notes: readonly string[] }[];
  kept_manual: { model: string; set: PriceTerms; offered: PriceTerms }[];
  unchanged: number;
  skipped: { provider: string; model: string; reason: string }[];
};
