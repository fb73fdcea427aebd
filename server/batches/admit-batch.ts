import { setTimeout as wait } from 'node:timers/promises';
import type { ObservedRejection } from '#db/events/admission.ts';
import { isEnforced, type Limit, type SubjectLimits } from '#db/limits/limits.ts';
import { type Amounts, isByUsage, reservedAmount } from '#db/limits/meters.ts';
import { windowStart } from '#db/limits/windows.ts';
import type { BatchLine, BatchShortage, BatchWindow, NewBatch } from '#db/stored/batches.ts';
import { acceptedLine, type BatchFacts } from '#server/batches/batch-facts.ts';
import { ACCOUNT_LINES_MAX, RECALL_PAUSE_MS, RECALLS_MAX } from '#server/batches/bounds.ts';
import type { PlannedLine } from '#server/batches/plan-line.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { Counter } from '#server/limits/counter.ts';
import { limitErrorOf } from '#server/limits/limit-error.ts';
import type { Relay } from '#server/relay/relay.ts';
import { writeFacts } from '#server/stored/facts-json.ts';

/** A window of a limit that the lines of a batch are charged to. */
type ChargedWindow = BatchWindow & { limit: Limit };

export type AdmitOptions = {
  relay: Pick<Relay, 'batchStore' | 'instance' | 'readModel'>;
  batch: Omit<NewBatch, 'facts'>;
  facts: BatchFacts;
  subjects: readonly SubjectLimits[];
  lines: readonly PlannedLine[];
  amounts: Amounts;
};

/**
 * Accepts all lines of a batch with their reservations, or none. Units of a limit that other servers have
 * leased are recalled and waited for; an observed limit that would reject the batch is recorded instead.
 * @returns the error of the limit that is too low; null: the lines are in the log.
 */
export async function admitBatch(options: AdmitOptions): Promise<ApiError | null> {
  const { relay, batch, subjects, lines, amounts, facts } = options;
  const minute = facts.accepted.admitted_minute ?? 0;
  let windows = windowsOf(subjects, minute, lines.length, amounts);
  const observed: ObservedRejection[] = [];
  for (let recalls = 0; ;) {
    const accepted = observed.length === 0 ? facts.accepted : { ...facts.accepted, observed };
    const shortage = await relay.batchStore.accept(relay.instance.appender.instance, {
      batch: { ...batch, facts: writeFacts({ ...facts, accepted }) },
      windows,
      since: facts.accepted.terms_position ?? 0,
      lines: lines.map((line) => ({ row: rowOf(line), event: eventOf({ accepted }, line) })),
      linesMax: ACCOUNT_LINES_MAX,
    });
    if (shortage === null) return null;
    if (shortage.kind === 'lines') return new ApiError('batch_limit_exceeded');
    if (shortage.recallable && recalls < RECALLS_MAX) {
      recalls++;
      await wait(RECALL_PAUSE_MS);
      continue;
    }
    const short = windows.find((window) => isSame(window, shortage.window)) as ChargedWindow;
    if (isEnforced(short.limit)) return errorOf(short, shortage, batch.account, relay.readModel.nowMs());
    observed.push(rejectionOf(short, shortage.free));
    windows = windows.filter((window) => window !== short);
  }
}

/**
 * The windows of quotas. Rates and concurrent requests don't count the lines of batches: these run when their
 * provider has time for them, within a day.
 */
function windowsOf(
  subjects: readonly SubjectLimits[],
  minute: number,
  lines: number,
  amounts: Amounts,
): ChargedWindow[] {
  return subjects.flatMap(({ subject, limits, position }) =>
    limits
      .filter(({ window }) => window !== 'none' && window !== 'minute')
      .map((limit): ChargedWindow => {
        const { meter, window, reset, cap } = limit;
        const amount = reservedAmount(meter);
        const units = amount === null || !isByUsage(meter) ? lines : amounts[amount];
        const start = windowStart(window, minute);
        return { subject, meter, window, start, reset, cap, terms: position, units, limit };
      }),
  );
}

const rowOf = ({ prompt_estimate: _estimate, ...row }: PlannedLine): BatchLine => row;

const eventOf = (facts: Pick<BatchFacts, 'accepted'>, line: PlannedLine) => ({
  ...acceptedLine(facts, line),
  prompt_estimate: line.prompt_estimate,
});

const isSame = (one: BatchWindow, other: BatchWindow): boolean =>
  one.subject === other.subject &&
  one.meter === other.meter &&
  one.window === other.window &&
  one.reset === other.reset;

function rejectionOf({ subject, meter, window, cap, units }: ChargedWindow, free: number): ObservedRejection {
  return { subject, meter, window, limit: cap, needed: units, free: Math.max(0, free) };
}

function errorOf(
  { subject, limit, start, terms, units }: ChargedWindow,
  { free, used, held }: Extract<BatchShortage, { kind: 'units' }>,
  account: string,
  nowMs: number,
): ApiError {
  // The rest of the units is leased by servers that did not return it.
  if (units <= limit.cap - used - held) return new ApiError('limit_unavailable');
  const counter = new Counter(subject, limit, start, terms, () => {});
  counter.reported = { free: Math.max(0, free), used, held, leased: held };
  return limitErrorOf({ kind: 'short', counter, minimum: units }, nowMs, account);
}
