import type { DisplayCurrency } from '#db/events/billing-events.ts';

/** Amounts in the currency that an invoice shows. Pure. */

const NANO = 1_000_000_000n;

/** Where no currency is set: the dollars that calls are charged in, in whole cents. */
export const DOLLARS: DisplayCurrency = { code: 'USD', rate: '1', digits: 2 };

/**
 * An amount of nano-dollars in a currency, rounded half away from zero to its decimal places. Exact until
 * then: without binary fractions.
 * @returns a decimal number such as `-12.30`.
 */
export function displayAmount(nanousd: bigint, { rate, digits }: DisplayCurrency): string {
  const [whole = '0', fraction = ''] = rate.split('.');
  const nanoRate = BigInt(whole) * NANO + BigInt(fraction.padEnd(9, '0'));
  const product = (nanousd < 0n ? -nanousd : nanousd) * nanoRate;
  const unit = (NANO * NANO) / 10n ** BigInt(digits);
  const rounded = (2n * product + unit) / (2n * unit);
  const text = String(rounded).padStart(digits + 1, '0');
  const at = text.length - digits;
  const sign = nanousd < 0n && rounded > 0n ? '-' : '';
  return `${sign}${text.slice(0, at)}${digits === 0 ? '' : `.${text.slice(at)}`}`;
}
