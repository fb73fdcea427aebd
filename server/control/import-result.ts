import type { PriceImportResult } from '#server/contract/models.ts';
import type { ImportPlan } from '#server/decide/price.ts';
import type { Offered } from '#server/read-model/price-import.ts';

/** The changes of an import of prices, as the command line and the dashboard report them. Pure. */
export function importResult(
  { source, providers, skipped }: Offered,
  dryRun: boolean,
  { changes, kept, unchanged }: ImportPlan,
): Omit<PriceImportResult, 'object' | 'event'> {
  return {
    source,
    providers,
    dry_run: dryRun,
    changed: changes.map(({ event, before, offer }) => ({
      model: event.model,
      before,
      after: offer.terms,
      notes: offer.notes,
    })),
    kept_manual: kept.map(({ offer, price }) => ({
      model: offer.pattern,
      set: price.terms,
      offered: offer.terms,
    })),
    unchanged,
    skipped: skipped.map(({ why, ...model }) => ({ ...model, reason: why })),
  };
}
