import { textsIn } from './params.ts';

/** URL search parameters of the audit log. Pure. */
export type EventSearch = {
  type?: string;
  account?: string;
  key?: string;
  member?: string;
  request?: string;
  at?: number;
  from?: string;
  to?: string;
};

export function readEventSearch(search: Record<string, unknown>): EventSearch {
  const found: EventSearch = textsIn(
    search,
    ['type', 'account', 'key', 'member', 'request', 'from', 'to'],
    256,
  );
  if (Number.isInteger(search['at']) && Number(search['at']) > 0) found.at = Number(search['at']);
  return found;
}
