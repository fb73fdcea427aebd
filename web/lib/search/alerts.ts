import { ALERT_FILTER_FIELDS, type AlertFilter } from '#db/alerts/alerts.ts';
import { readFilterSearch } from './filter.ts';

/** URL search parameters of the alerts page: those of the filter of requests that alerts have. Pure. */
export function readAlertSearch(search: Record<string, unknown>): AlertFilter {
  const found = readFilterSearch(search);
  return Object.fromEntries(
    ALERT_FILTER_FIELDS.flatMap((field) => (found[field] === undefined ? [] : [[field, found[field]]])),
  );
}
