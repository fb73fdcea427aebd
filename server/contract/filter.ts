import type { RequestFilter, RequestRow } from '#server/contract/requests.ts';

/** Whether a request matches a filter. Pure. */
export function matches(
  filter: RequestFilter,
  row: Pick<RequestRow, 'account' | 'key' | 'model' | 'outcome' | 'status'>,
): boolean {
  return (
    (filter.account === undefined || filter.account === row.account) &&
    (filter.key === undefined || filter.key === row.key) &&
    (filter.model === undefined || filter.model === row.model) &&
    (filter.outcome === undefined || filter.outcome === row.outcome) &&
    (filter.status === undefined || filter.status === row.status)
  );
}
