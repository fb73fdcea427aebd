import { textsIn } from './params.ts';

/** URL search parameters of the point-in-time page. Pure. */
export type StateSearch = {
  account?: string;
  key?: string;
  plan?: string;
  /** A position. */ at?: number;
  time?: string;
};

export function readStateSearch(search: Record<string, unknown>): StateSearch {
  const found: StateSearch = textsIn(search, ['account', 'key', 'plan', 'time'], 100);
  if (Number.isInteger(search['at']) && Number(search['at']) >= 0) found.at = Number(search['at']);
  return found;
}
