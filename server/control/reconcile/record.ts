import type { Client, ClientBase } from 'pg';
import { RECONCILIATION_STREAM } from '#db/events/streams.ts';
import { encodeReport, reconciliationEvent, type Report } from '#db/reconcile/report/report.ts';
import {
  listReconciliations,
  loadReport,
  type RecordedReconciliation,
  storeReport,
} from '#db/reconcile/report/store.ts';
import { RECONCILIATIONS_LISTED_MAX } from '#server/control/bounds.ts';
import type { Change } from '#server/control/change.ts';
import type { Control } from '#server/control/control.ts';
import { DecisionError } from '#server/decide/decision.ts';

/** Stores the report of a comparison, then appends the event with its digest. */
export async function recordReconciliation(
  client: Client,
  control: Control,
  report: Report,
): Promise<Change> {
  const { text, digest } = encodeReport(report);
  try {
    await storeReport(client, digest, text);
    const event = reconciliationEvent(report, digest, control.actor);
    return await control.decide(async () => ({
      events: [event],
      version: (await control.loadVersion(RECONCILIATION_STREAM)) + 1,
    }));
  } catch (error) {
    if (error instanceof RangeError) throw new DecisionError('invalid', error.message);
    throw error;
  }
}

/**
 * A recorded comparison with its report, whose digest is checked.
 * @throws {DecisionError} when no comparison has the id.
 * @throws {ReportDamageError} when the stored report is not the recorded one.
 */
export async function loadReconciliation(
  client: ClientBase,
  id: string,
): Promise<RecordedReconciliation & { report: Report }> {
  const all = await listReconciliations(client, RECONCILIATIONS_LISTED_MAX);
  const found = all.find(({ event }) => event.reconciliation === id);
  if (!found) throw new DecisionError('not_found', `There is no reconciliation "${id}".`);
  return { ...found, report: await loadReport(client, found.event.report_digest) };
}
