import { z } from 'zod';
import {
  ApplyDifferences,
  BILL_UPLOAD_BYTES_MAX,
  ReconciliationLine,
  ReconciliationList,
  ReconciliationReport,
  ReportQuery,
  StartReconciliation,
} from '#server/contract/reconciliations.ts';
import type { ClientBase } from 'pg';
import type { Response } from 'express';
import { cellsCsv, reportCsv } from '#db/reconcile/report/csv.ts';
import { type Report, ReportDamageError } from '#db/reconcile/report/report.ts';
import { listReconciliations, type RecordedReconciliation } from '#db/reconcile/report/store.ts';
import { reportText } from '#db/reconcile/report/text.ts';
import { RECONCILIATIONS_SHOWN_MAX } from '#server/dashboard/bounds.ts';
import { loadReconciliation } from '#server/control/reconcile/record.ts';
import { parseId } from '#server/dashboard/change.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import { ADMINISTRATORS, ADMINISTRATORS_AND_AUDITORS, type ApiRoute, route } from '#server/dashboard/gate.ts';
import { reconciliationReport, reconciliationRow } from '#server/dashboard/reconcile/report.ts';
import type { ReconcileTask } from '#server/dashboard/reconcile/task.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { holderOf, withReadSlot } from '#server/read/api.ts';
import { replyWithLines } from '#server/read/export-reply.ts';
import { readQuery } from '#server/read/query.ts';
import type { Source } from '#server/read/store.ts';
import type { Caller } from '#server/sign-in/signed-in.ts';

/** No table of a projection is read. */
const LOG: Source = { projection: 'directory', tables: [] };
const LINES = ['content-type', 'application/x-ndjson; charset=utf-8'] as const;

type Loaded = RecordedReconciliation & { report: Report };

/** Comparisons of bills: administrators start and apply them, auditors read them. */
export function reconciliationRoutes({ reads, reconcileTasks }: Dashboard): ApiRoute[] {
  const read = <T>(who: Caller, work: (client: ClientBase) => Promise<T>): Promise<T | ApiError> =>
    withReadSlot(reads, holderOf(who), async () => {
      const done = await reads.read(LOG, work);
      return done instanceof ApiError ? done : done.found;
    });
  const readReport = <T>(
    who: Caller,
    id: string,
    work: (client: ClientBase, loaded: Loaded) => Promise<T>,
  ): Promise<T | ApiError> =>
    read(who, async (client) => {
      try {
        return await work(client, await loadReconciliation(client, id));
      } catch (error) {
        if (error instanceof ReportDamageError)
          return new ApiError('not_allowed', { message: `The report can't be shown: ${error.message}.` });
        throw error;
      }
    });
  const run = (task: ReconcileTask, who: Caller, response: Response): Promise<ApiError | null> => {
    const left = new AbortController();
    response.once('close', () => left.abort());
    const lines = reconcileTasks.start(task, who, left.signal);
    return lines instanceof ApiError
      ? Promise.resolve(lines)
      : replyWithLines(response, LINES, written(lines));
  };
  return [
    route(
      'get',
      '/api/v1/reconciliations',
      'usage:read',
      ADMINISTRATORS_AND_AUDITORS,
      { reply: ReconciliationList },
      async (_call, who) => {
        const found = await read(who, (client) => listReconciliations(client, RECONCILIATIONS_SHOWN_MAX));
        if (found instanceof ApiError) return found;
        return {
          object: 'list',
          data: found.map(reconciliationRow),
          running: reconcileTasks.running,
        } satisfies ReconciliationList;
      },
    ),

    route(
      'get',
      '/api/v1/reconciliations/:reconciliation',
      'usage:read',
      ADMINISTRATORS_AND_AUDITORS,
      { reply: ReconciliationReport },
      async ({ params }, who) => {
        const id = parseId(params, 'reconciliation');
        return id instanceof ApiError ? id : readReport(who, id, reconciliationReport);
      },
    ),

    route(
      'get',
      '/api/v1/reconciliations/:reconciliation/report',
      'usage:read',
      ADMINISTRATORS_AND_AUDITORS,
      { query: ReportQuery, reply: z.string(), type: 'text/csv', others: ['text/plain'] },
      async ({ params, request, response }, who) => {
        const id = parseId(params, 'reconciliation');
        if (id instanceof ApiError) return id;
        const query = readQuery(ReportQuery, request.url);
        if (query instanceof ApiError) return query;
        const loaded = await readReport(who, id, async (_client, found) => found);
        if (loaded instanceof ApiError) return loaded;
        const { type, extension, lines } = download(loaded.report, query.format);
        const name = `reconciliation-${id}-${query.format}.${extension}`;
        return replyWithLines(
          response,
          ['content-type', type, 'content-disposition', `attachment; filename="${name}"`],
          toAsync(lines),
        );
      },
    ),

    route(
      'post',
      '/api/v1/reconciliations',
      'usage:write',
      ADMINISTRATORS,
      { body: StartReconciliation, reply: ReconciliationLine, type: 'application/x-ndjson' },
      ({ body, response }, who) => run({ kind: 'compare', start: body }, who, response),
      BILL_UPLOAD_BYTES_MAX,
    ),

    route(
      'post',
      '/api/v1/reconciliations/:reconciliation/apply',
      'usage:write',
      ADMINISTRATORS,
      { body: ApplyDifferences, reply: ReconciliationLine, type: 'application/x-ndjson' },
      async ({ body, params, response }, who) => {
        const id = parseId(params, 'reconciliation');
        return id instanceof ApiError
          ? id
          : run({ kind: 'apply', reconciliation: id, apply: body }, who, response);
      },
    ),
  ];
}

function download(
  report: Report,
  format: ReportQuery['format'],
): { type: string; extension: string; lines: Iterable<string> } {
  const csv = { type: 'text/csv; charset=utf-8', extension: 'csv' };
  switch (format) {
    case 'text':
      return { type: 'text/plain; charset=utf-8', extension: 'txt', lines: [`${reportText(report)}\n`] };
    case 'differences':
      return { ...csv, lines: reportCsv(report) };
    case 'days':
      return { ...csv, lines: cellsCsv(report) };
  }
}

async function* toAsync(lines: Iterable<string>): AsyncGenerator<string> {
  yield* lines;
}

async function* written(lines: AsyncGenerator<ReconciliationLine>): AsyncGenerator<string> {
  for await (const line of lines) yield `${JSON.stringify(line)}\n`;
}
