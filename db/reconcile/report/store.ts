import type { Queryable } from '#db/schema/query.ts';
import { countOf, db, rowOf } from '#db/schema/query.ts';
import { readNewestOfStream } from '#db/log/read-streams.ts';
import { allControl } from '#db/log/read.ts';
import type { EventOf } from '#db/events/events.ts';
import { RECONCILIATION_STREAM } from '#db/events/streams.ts';
import { REPORT_BYTES_MAX } from '#db/reconcile/bounds.ts';
import { decodeReport, type Report, ReportDamageError } from '#db/reconcile/report/report.ts';
import type { ClientBase } from 'pg';

/** A recorded comparison, as the log has it. */
export type RecordedReconciliation = {
  at: Date;
  position: number;
  event: EventOf<'reconciliation.recorded'>;
};

/**
 * Stores the text of a report under its digest. Storing it again changes nothing.
 * @throws {RangeError} when it is too large.
 */
export async function storeReport(client: Queryable, digest: string, text: string): Promise<void> {
  if (Buffer.byteLength(text) > REPORT_BYTES_MAX)
    throw new RangeError(
      `the report has more than ${REPORT_BYTES_MAX / 1024 ** 2} MiB: compare a shorter period`,
    );
  await countOf(
    client,
    db
      .insertInto('daybook.reconciliation_report')
      .values({ digest, report: text })
      .onConflict((conflict) => conflict.doNothing()),
  );
}

/** @throws {ReportDamageError} when the report is missing or was changed. */
export async function loadReport(client: Queryable, digest: string): Promise<Report> {
  const row = await rowOf(
    client,
    db.selectFrom('daybook.reconciliation_report').select('report').where('digest', '=', digest),
  );
  if (row === undefined) throw new ReportDamageError(`the report with SHA-256 ${digest} is missing`);
  return decodeReport(row.report, digest);
}

/** The recorded comparisons, newest first. */
export async function listReconciliations(
  client: ClientBase,
  limit: number,
): Promise<RecordedReconciliation[]> {
  const rows = await readNewestOfStream(client, RECONCILIATION_STREAM, limit);
  return allControl(rows).flatMap(({ at, position, event }) =>
    event.type === 'reconciliation.recorded' ? [{ at, position, event }] : [],
  );
}
