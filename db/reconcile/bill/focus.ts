import { type BillCollector, currencyOf, EMPTY_LINE } from '#db/reconcile/bill/collector.ts';
import { csvRecords } from '#db/reconcile/bill/csv-records.ts';
import { momentOf } from '#db/reconcile/bill/days.ts';
import { BillFormatError, quoted } from '#db/reconcile/bill/format-error.ts';
import { kindOf } from '#db/reconcile/bill/kind.ts';
import type { BillKind } from '#db/reconcile/bill/line.ts';
import { partNamed, quantityOf } from '#db/reconcile/bill/units.ts';

/**
 * Cost and usage in the FinOps Open Cost and Usage Specification (FOCUS) 1.x as CSV. Its columns don't name
 * models or API keys, so custom columns may: `x_Model`, `x_CredentialId`, `x_ServiceTier`, `x_RequestId` and
 * `x_TokenClass`. Pure.
 */

const REQUIRED = ['BilledCost', 'BillingCurrency', 'ChargeCategory', 'ChargePeriodStart', 'ChargePeriodEnd'];

/**
 * @param service only charges of this `ServiceName`; null: all.
 * @returns the names of the issuers, each once.
 */
export function readFocus(text: string, collector: BillCollector, service: string | null): string[] {
  const issuers = new Set<string>();
  for (const { place, cells } of csvRecords(text, REQUIRED)) {
    const cell = (name: string): string | null => {
      const value = cells.get(name) ?? '';
      return value === '' || value.toLowerCase() === 'null' ? null : value;
    };
    if (service !== null && cell('ServiceName') !== service) continue;
    const issuer = cell('InvoiceIssuerName') ?? cell('ServiceProviderName') ?? cell('ProviderName');
    if (issuer !== null) issuers.add(issuer);
    const currency = currencyOf(place, cell('BillingCurrency') ?? '');
    const cost = collector.cost(place, cell('BilledCost') ?? '', currency);
    const meter = cell('x_TokenClass') ?? cell('SkuMeter');
    const part = meter === null ? null : partNamed(meter);
    const consumed = cell('ConsumedQuantity');
    const unit = cell('ConsumedUnit') ?? '';
    const quantity = consumed === null || part === null ? null : quantityOf(consumed, unit, part);
    if (consumed !== null && quantity === null)
      collector.unsupported(
        place,
        `The quantity ${consumed} ${unit} of ${quoted(meter ?? cell('SkuId') ?? '')} has no part and unit ` +
          'here; its cost is imported.',
      );
    collector.add({
      ...EMPTY_LINE,
      place,
      kind: kindOfCharge(place, cell('ChargeCategory') ?? '', cell('ChargeDescription') ?? '', cost),
      from: momentOf(cell('ChargePeriodStart') ?? '', 'UTC', place),
      to: momentOf(cell('ChargePeriodEnd') ?? '', 'UTC', place),
      model: cell('x_Model') ?? cell('SkuId'),
      credential: cell('x_CredentialId'),
      serviceTier: cell('x_ServiceTier'),
      requestId: cell('x_RequestId'),
      part,
      quantity,
      requests: part === 'requests' ? quantity : null,
      cost,
      currency,
    });
  }
  return [...issuers];
}

/** FOCUS has no category of its own for discounts and refunds: they are usage or adjustments below zero. */
function kindOfCharge(place: string, category: string, description: string, cost: bigint): BillKind {
  switch (category) {
    case 'Usage':
      return cost < 0n ? kindOf(description, cost) : 'usage';
    case 'Purchase':
      return 'fee';
    case 'Tax':
      return 'tax';
    case 'Credit':
      return 'credit';
    case 'Adjustment': {
      const kind = kindOf(description, cost);
      return kind === 'usage' ? 'fee' : kind;
    }
    default:
      throw new BillFormatError(place, `${quoted(category)} is not a ChargeCategory of FOCUS.`);
  }
}
