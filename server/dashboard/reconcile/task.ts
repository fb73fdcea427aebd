import type { ClientConfig } from 'pg';
import { parseAmount } from '#db/money.ts';
import { dayOf } from '#db/reconcile/bill/days.ts';
import type { Bill } from '#db/reconcile/bill/line.ts';
import { joinBills, parseBill } from '#db/reconcile/bill/read-bill.ts';
import { withControl } from '#server/control/control.ts';
import { applyDifferences } from '#server/control/reconcile/apply.ts';
import { compareBill, type CompareTerms } from '#server/control/reconcile/compare.ts';
import { recordReconciliation } from '#server/control/reconcile/record.ts';
import { DecisionError } from '#server/decide/decision.ts';
import type { Config } from '#server/process/config.ts';
import { fetchUpstreamBill } from '#server/billing-api/upstream-bill.ts';
import type { ApplyDifferences, StartReconciliation } from '#server/contract/reconciliations.ts';

/** A comparison, or the corrections of reviewed differences. */
export type ReconcileTask =
  | { kind: 'compare'; start: StartReconciliation }
  | { kind: 'apply'; reconciliation: string; apply: ApplyDifferences };

export type TaskInput = {
  /** Of the relay's role. */
  connection: ClientConfig;
  config: Pick<Config, 'DAYBOOK_DATA' | 'DAYBOOK_MASTER_KEY_FILE'>;
  archiveDir: string | undefined;
  actor: string;
  task: ReconcileTask;
};

export type TaskResult = { id: string; corrected: number; repeated: number };

/**
 * Carries a task out over a connection of its own.
 * @param onProgress gets the number of positions or requests done, and of all.
 * @throws {DecisionError | BillFormatError | BillingError | ReportDamageError} for the operator.
 */
export async function carryOut(
  { connection, config, archiveDir, actor, task }: TaskInput,
  onProgress: (done: number, of: number) => void,
  signal: AbortSignal,
): Promise<TaskResult> {
  return withControl({ config: () => connection }, actor, async (control, client) => {
    if (task.kind === 'apply') {
      const { reconciliation: id, apply } = task;
      const { corrected, repeated } = await applyDifferences(client, control, {
        id,
        differences: apply.differences,
        reason: apply.reason,
        onProgress,
        signal,
      });
      return { id, corrected, repeated };
    }
    const { bill: source, ...more } = task.start;
    const bill =
      source.from === 'files'
        ? uploadedBill(source)
        : await fetchUpstreamBill({ control, client, config }, source.upstream, {
            api: null,
            from: dayOf(source.since, 'UTC', 'The first day').from,
            to: dayOf(source.until, 'UTC', 'The day after the last').from,
          });
    let done = 0;
    const report = await compareBill(client, bill, termsOf(more), {
      archiveDir,
      signal,
      onProgress: (positions, of) => onProgress((done += positions), of),
    });
    await recordReconciliation(client, control, report);
    return { id: report.reconciliation, corrected: 0, repeated: 0 };
  });
}

function uploadedBill({
  files,
  provider,
  time_zone: timeZone,
}: Extract<StartReconciliation['bill'], { from: 'files' }>): Bill {
  const bills = files.map(({ text, format }) => parseBill(text, format, { provider, timeZone }));
  return joinBills(bills as [Bill, ...Bill[]]);
}

/** @throws {DecisionError} where a rate is no amount. */
function termsOf({
  upstreams,
  models,
  credentials,
  rates,
  tolerance_nanousd: nanousd,
  tolerance_ppm: ppm,
}: Omit<StartReconciliation, 'bill'>): CompareTerms {
  return {
    upstreams,
    models: new Map(Object.entries(models)),
    credentials: new Map(Object.entries(credentials)),
    rates: new Map(
      Object.entries(rates).map(([currency, dollars]) => {
        const rate = parseAmount(dollars);
        if (rate === null || rate === 0)
          throw new DecisionError(
            'invalid',
            `The rate "${dollars}" of ${currency} is no amount in dollars such as 1.0837.`,
          );
        return [currency.toUpperCase(), BigInt(rate)] as const;
      }),
    ),
    tolerance: { nanousd: BigInt(nanousd), ppm },
  };
}
