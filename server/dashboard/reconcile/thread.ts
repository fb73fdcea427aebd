import { parentPort, workerData } from 'node:worker_threads';
import { StoreError } from '#db/postgres/connect.ts';
import { BillFormatError } from '#db/reconcile/bill/format-error.ts';
import { ReportDamageError } from '#db/reconcile/report/report.ts';
import { BillingError } from '#server/billing-api/billing-error.ts';
import type { ReconciliationLine } from '#server/contract/reconciliations.ts';
import { carryOut, type TaskInput } from '#server/dashboard/reconcile/task.ts';
import { DecisionError } from '#server/decide/decision.ts';

/** The thread of one task; see `tasks.ts`. Any message cancels it. */
const canceled = new AbortController();
parentPort?.once('message', () => canceled.abort());

const post = (line: ReconciliationLine): void =>
  // A port between threads has no origin.
  // oxlint-disable-next-line unicorn/require-post-message-target-origin
  parentPort?.postMessage(line);

const EXPLAINED = [DecisionError, BillFormatError, BillingError, ReportDamageError, StoreError];

try {
  const result = await carryOut(workerData as TaskInput, (done, of) => post({ done, of }), canceled.signal);
  post({ result });
} catch (error) {
  // A canceled task has no result.
  if (!canceled.signal.aborted) {
    if (!EXPLAINED.some((kind) => error instanceof kind)) throw error;
    post({ error: (error as Error).message });
  }
} finally {
  parentPort?.unref();
}
