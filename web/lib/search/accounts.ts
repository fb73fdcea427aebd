import { textsIn } from './params.ts';

/** URL search parameters of the accounts page. Pure. */
export type AccountSearch = {
  /** The account whose details are open. */
  account?: string;
  plan?: string;
  /** Part of a name or id. */
  name?: string;
};

export const readAccountSearch = (search: Record<string, unknown>): AccountSearch =>
  textsIn(search, ['account', 'plan', 'name'], 100);
