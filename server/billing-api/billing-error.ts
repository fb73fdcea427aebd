/** A bill that can't be fetched. The message contains no credential and nothing that the provider replied. */
export class BillingError extends Error {
  override name = 'BillingError';
}
