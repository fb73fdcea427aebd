/** Which accounts the page of accounts shows, as it stands in its address. Pure. */
export type AccountSearch = {
  /** The account whose details are open. */
  account?: string;
  plan?: string;
  /** A part of a name or an id. */
  name?: string;
};

export function readAccountSearch(search: Record<string, unknown>): AccountSearch {
  const found: AccountSearch = {};
  for (const field of ['account', 'plan', 'name'] as const) {
    const value = search[field];
    // A router may have read an id of digits as a number.
    if ((typeof value === 'string' && value !== '') || typeof value === 'number') found[field] = String(value).slice(0, 100);
  }
  return found;
}
