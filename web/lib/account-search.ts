import { textsIn } from './search-text.ts';

/** Which accounts the page of accounts shows, as it stands in its address. Pure. */
export type AccountSearch = {
  /** The account whose details are open. */
  account?: string;
  plan?: string;
  /** A part of a name or an id. */
  name?: string;
};

export const readAccountSearch = (search: Record<string, unknown>): AccountSearch =>
  textsIn(search, ['account', 'plan', 'name'], 100);
