import { csvLine } from '#db/csv.ts';
import { describeClass } from '#db/reconcile/classes.ts';
import type { Report } from '#db/reconcile/report/report.ts';

/** The differences of a report as CSV; amounts in nano-dollars. Pure. */
export function* reportCsv({ differences }: Report): Generator<string> {
  yield csvLine([
    'difference',
    'class',
    'day',
    'model',
    'credential',
    'service_tier',
    'count',
    'amount_nanousd',
    'within_tolerance',
    'detail',
    'meaning',
    'requests',
    'provider_requests',
    'bill_places',
  ]);
  for (const each of differences) {
    const idsOf = (name: 'request' | 'provider_request'): string =>
      each.requests.flatMap((request) => request[name] ?? []).join(' ');
    yield csvLine([
      each.id,
      each.class,
      each.day,
      each.model,
      each.credential,
      each.service_tier,
      each.count,
      BigInt(each.amount_nanousd),
      each.is_within_tolerance,
      each.detail,
      describeClass(each.class).meaning,
      idsOf('request'),
      idsOf('provider_request'),
      each.places.join('; '),
    ]);
  }
}

/** The amounts of a report by day, model, credential and tier as CSV, in nano-dollars. Pure. */
export function* cellsCsv({ cells }: Report): Generator<string> {
  yield csvLine([
    'day',
    'model',
    'credential',
    'service_tier',
    'requests',
    'bill_nanousd',
    'log_nanousd',
    'charged_nanousd',
  ]);
  for (const { day, model, credential, service_tier, requests, ...amounts } of cells)
    yield csvLine([
      day,
      model,
      credential,
      service_tier,
      requests,
      BigInt(amounts.bill_nanousd),
      BigInt(amounts.log_nanousd),
      BigInt(amounts.charged_nanousd),
    ]);
}
