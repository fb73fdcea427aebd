import { z } from 'zod';
import { Control, Count, Digest, Id, Time } from '#db/events/parts.ts';
import { DIFFERENCE_CLASSES } from '#db/reconcile/classes.ts';

/** Comparisons of a provider's bill with the log. Pure. */

const Amount = z.int();

export const ReconciliationRecorded = Control.extend({
  type: z.literal('reconciliation.recorded'),
  reconciliation: Id,
  /** The provider that issued the bill. */
  provider: z.string().regex(/^[\x20-\x7e]{1,100}$/),
  /** The interval of the bill, and SHA-256 of its lines. */
  from: Time,
  to: Time,
  bill_digest: Digest,
  /** The position of the log up to which calls and corrections were compared. */
  up_to_position: Count,
  tolerance_nanousd: Count,
  tolerance_ppm: Count,
  bill_nanousd: Amount,
  log_nanousd: Amount,
  charged_nanousd: Amount,
  /** The bill's total minus the log's and all classed differences. */
  unexplained_nanousd: Amount,
  differences: z
    .array(z.strictObject({ class: z.enum(DIFFERENCE_CLASSES), count: Count, amount_nanousd: Amount }))
    .max(DIFFERENCE_CLASSES.length),
  /** SHA-256 of the report. */
  report_digest: Digest,
});
