import { z } from 'zod';
import { PriceShape } from '#db/events/price-events.ts';
import { ChangeReply } from '#server/contract/parts.ts';
import { ModelName, PlanName } from '#db/events/parts.ts';
import { ModelTerms } from '#db/events/upstream-events.ts';

/**
 * `GET /api/v1/models`, a list: models that the account's calls may use, with what the account is charged, in
 * nano-dollars.
 */
/** What a model costs. */
export const PriceTerms = z.object({
  base: PriceShape.base,
  rules: PriceShape.rules.unwrap().readonly().optional(),
});

export const ModelRow = z.object({ id: z.string(), upstream: z.string(), price: PriceTerms.nullable() });
export type ModelRow = z.infer<typeof ModelRow>;
/**
 * One in `GET /api/v1/dispatch`, a list by name, for administrators and auditors: a model with its own
 * routing. Other names go to the first upstream that lists them.
 */
export const ModelRoute = z.object({
  model: z.string(),
  terms: ModelTerms,
  position: z.number(),
  /** Its ETag, for `If-Match`. */
  version: z.number(),
});
export type ModelRoute = z.infer<typeof ModelRoute>;
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
export const PriceRow = z.object({
  ...PriceTerms.shape,
  model: z.string(),
  plan: z.string().nullable(),
  source: z.string(),
  version: z.number(),
});
export type PriceRow = z.infer<typeof PriceRow>;
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
export const PriceImportResult = z.object({
  ...ChangeReply.shape,
  object: z.literal('price_import'),
  source: z.string(),
  providers: z.array(z.string()),
  dry_run: z.boolean(),
  changed: z.array(
    z.object({
      model: z.string(),
      before: PriceTerms.nullable(),
      after: PriceTerms,
      notes: z.array(z.string()).readonly(),
    }),
  ),
  kept_manual: z.array(z.object({ model: z.string(), set: PriceTerms, offered: PriceTerms })),
  unchanged: z.number(),
  skipped: z.array(z.object({ provider: z.string(), model: z.string(), reason: z.string() })),
});
export type PriceImportResult = z.infer<typeof PriceImportResult>;
