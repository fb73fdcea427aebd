import type { Client } from 'pg';
import type { EventOf } from '#db/events/events.ts';
import { CorrectionReason } from '#db/events/usage-events.ts';
import { ConflictError } from '#db/log/append.ts';
import { isCorrectable } from '#db/reconcile/classes.ts';
import type { Report } from '#db/reconcile/report/report.ts';
import { RECONCILE_APPLY_ATTEMPTS_MAX } from '#server/control/bounds.ts';
import type { Control } from '#server/control/control.ts';
import { loadReconciliation } from '#server/control/reconcile/record.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { correctUsage } from '#server/decide/usage.ts';

/** The corrections of one run; `repeated` were made by an earlier one. */
export type Applied = { corrected: number; repeated: number; amount_nanousd: string };

export type ApplyRun = {
  /** Of the comparison. */
  id: string;
  /** The numbers of the reviewed differences. */
  differences: readonly number[];
  reason: string;
  /** Gets the requests done and all of them. */
  onProgress?: (done: number, of: number) => void;
  /** Ends the run between two requests. */
  signal?: AbortSignal;
};

type ReportedDifference = Report['differences'][number];

/** The reference of the corrections of a difference. */
export const referenceOf = (reconciliation: string, difference: number): string =>
  `reconciliation:${reconciliation}:${difference}`;

/**
 * Corrects the requests of reviewed differences to the figures of the bill, each once: a repeated run
 * continues one that was ended half-way. The operator's cost and the tokens are corrected; accounts' charges
 * stay.
 * @throws {DecisionError} when a difference can't be applied; nothing is changed then.
 */
export async function applyDifferences(
  client: Client,
  control: Control,
  { id, differences, reason, onProgress, signal }: ApplyRun,
): Promise<Applied> {
  if (!CorrectionReason.safeParse(reason).success)
    throw new DecisionError('invalid', 'A reason has 1 to 200 characters.');
  const { report } = await loadReconciliation(client, id);
  const chosen = [...new Set(differences)].map((each) => applicable(report, each));
  const of = chosen.reduce((sum, { corrections }) => sum + corrections.length, 0);
  const applied = { corrected: 0, repeated: 0 };
  let amount = 0n;
  for (const difference of chosen)
    for (const correction of difference.corrections) {
      signal?.throwIfAborted();
      const reference = referenceOf(id, difference.id);
      if (await correctOne(control, correction, reference, reason)) {
        applied.corrected++;
        amount += BigInt(correction.upstream_cost_nanousd);
      } else applied.repeated++;
      onProgress?.(applied.corrected + applied.repeated, of);
    }
  return { ...applied, amount_nanousd: String(amount) };
}

/** @throws {DecisionError} when the difference doesn't exist, or its requests can't be corrected. */
function applicable({ reconciliation, differences }: Report, id: number): ReportedDifference {
  const found = differences.find((each) => each.id === id);
  if (!found)
    throw new DecisionError('not_found', `Reconciliation ${reconciliation} has no difference ${id}.`);
  if (!isCorrectable(found.class))
    throw new DecisionError(
      'not_allowed',
      `Difference ${id} is of the class ${found.class}: no recorded figure is wrong there.`,
    );
  if (found.corrections.length === 0)
    throw new DecisionError(
      'not_allowed',
      `Difference ${id} has no requests to correct: the bill has no request ids for it, or too many.`,
    );
  return found;
}

/** @returns false if the request was corrected with the reference already. */
async function correctOne(
  control: Control,
  { request, ...deltas }: ReportedDifference['corrections'][number],
  reference: string,
  reason: string,
): Promise<boolean> {
  for (let attempt = 1; ; attempt++) {
    const { seen, ...ended } = await control.loadEndedRequest(request, null);
    if (ended.references.includes(reference)) return false;
    const changes = { ...deltas, cost_nanousd: 0 };
    const event: EventOf<'usage.adjusted'> = correctUsage(ended, {
      deltas: changes,
      reference,
      reason,
      actor: control.actor,
    });
    try {
      await control.appendCorrections(seen, [event]);
      return true;
    } catch (error) {
      // Another process corrected it meanwhile, perhaps with the same reference.
      if (!(error instanceof ConflictError) || attempt === RECONCILE_APPLY_ATTEMPTS_MAX) throw error;
    }
  }
}
