import { textsIn } from './params.ts';

/** URL search parameters of the page of one reconciliation. Pure. */
export type ReconciliationSearch = {
  /** Its id. */
  id?: string;
  /** Only differences of this class. */
  class?: string;
};

export const readReconciliationSearch = (search: Record<string, unknown>): ReconciliationSearch =>
  textsIn(search, ['id', 'class'], 40);
