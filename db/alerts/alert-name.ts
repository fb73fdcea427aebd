import type { ReadAlert } from '#db/alerts/alert-line.ts';
import { ATTRIBUTION_KIND_NAMES, type AttributionKind } from '#db/attribution/value.ts';

/**
 * The readable value of the end user, session or tag that an alert is about. Alerts are stored with its
 * pseudonym alone, so that an erased value is in none. Pure.
 */

/** The pseudonym that an alert is about; null: none. */
export function pseudonymIn({
  details,
}: Pick<ReadAlert, 'details'>): { kind: AttributionKind; pseudonym: string } | null {
  for (const kind of ATTRIBUTION_KIND_NAMES) {
    const pseudonym = details[kind];
    if (typeof pseudonym === 'string') return { kind, pseudonym };
  }
  return null;
}

/** The alert with a readable value in place of its pseudonym, for its sentence; null: it stays. */
export function withName<A extends ReadAlert>(alert: A, value: string | null): A {
  const named = pseudonymIn(alert);
  return named === null || value === null
    ? alert
    : { ...alert, details: { ...alert.details, [named.kind]: value } };
}
