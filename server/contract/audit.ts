import { z } from 'zod';
import { KeyTerms, PlanTerms } from '#db/events/events.ts';
import { Id } from '#db/events/parts.ts';

/** Contract for proofs, checks and past states of the event log. Pure. */

/** A published checkpoint. `size` is the position of the newest event that it covers. */
export const CheckpointRow = z.object({
  epoch: z.number(),
  size: z.number(),
  /** Standard base64, as in the note. */
  root: z.string(),
  /** The note's signature lines: each a name and a key id. */
  signed_by: z.array(z.object({ name: z.string(), key_id: z.string() })),
  published_at: z.string(),
  /** Witnesses that cosigned this checkpoint. */
  witnesses: z.array(z.string()),
  /** The signed note. */
  note: z.string(),
});
export type CheckpointRow = z.infer<typeof CheckpointRow>;

export const LogKey = z.object({
  /** The verifier key for auditors and witnesses. */
  verifier_key: z.string(),
  key_id: z.string(),
  /** The position of the event that added the key. */
  position: z.number(),
  at: z.string().nullable(),
  /** Whether this key signed the newest checkpoint. */
  is_signing: z.boolean(),
});
export type LogKey = z.infer<typeof LogKey>;

/** A witness of the log. Null fields: it has never reported. */
export const WitnessRow = z.object({
  name: z.string(),
  /** Whether it is configured in WITNESSES. */
  configured: z.boolean(),
  size: z.number().nullable(),
  seen_at: z.string().nullable(),
  /** Events behind the newest checkpoint. */
  behind: z.number().nullable(),
});
export type WitnessRow = z.infer<typeof WitnessRow>;

/**
 * `GET /api/v1/audit/proof`, for administrators and auditors: which part of the log is signed, and by which
 * keys and witnesses.
 */
export const Proof = z.object({
  object: z.literal('proof'),
  now: z.string(),
  log: z.object({
    id: z.string(),
    origin: z.string(),
    epoch: z.number(),
    head: z.number(),
    /** The first position that isn't archived. */
    first: z.number(),
  }),
  latest: CheckpointRow.nullable(),
  /** Events without a checkpoint, and the time of the oldest. */
  uncovered: z.object({ events: z.number(), since: z.string().nullable() }),
  keys: z.array(LogKey),
  /** Histories that a restore abandoned. */
  lost: z.array(
    z.object({
      epoch: z.number(),
      size: z.number(),
      root: z.string(),
      position: z.number(),
      at: z.string().nullable(),
    }),
  ),
  witnesses: z.array(WitnessRow),
});
export type Proof = z.infer<typeof Proof>;

/** `GET /api/v1/audit/checkpoints`, newest first. */
export const CheckpointsQuery = z.strictObject({
  limit: z.coerce.number().int().min(1).max(200).default(50),
  cursor: z
    .string()
    .regex(/^\d{1,9}-\d{1,15}$/, 'must be one that a page gave as "next"')
    .optional(),
});
export const CheckpointPage = z.object({
  object: z.literal('list'),
  data: z.array(CheckpointRow),
  next: z.string().nullable(),
});
export type CheckpointPage = z.infer<typeof CheckpointPage>;

const Position = z.coerce.number().int().min(0);
/** `GET /api/v1/audit/state`: an account, a key or a plan after a position, or at a time. */
export const StateQuery = z
  .strictObject({
    account: Id.optional(),
    key: Id.optional(),
    plan: z.string().min(1).max(100).optional(),
    at: Position.optional(),
    time: z.iso
      .datetime({ offset: true })
      .transform((text) => new Date(text))
      .optional(),
  })
  .refine(
    ({ account, key, plan }) => [account, key, plan].filter((each) => each !== undefined).length === 1,
    { path: ['account'], message: 'give exactly one of "account", "key" and "plan"' },
  )
  .refine(({ at, time }) => at === undefined || time === undefined, {
    path: ['time'],
    message: 'can\'t be combined with "at": give a position or a time',
  });
export type StateQuery = z.infer<typeof StateQuery>;

export const SubjectState = z.union([
  z.object({
    kind: z.literal('account'),
    name: z.string(),
    state: z.enum(['active', 'suspended']),
    plan: z.string().nullable(),
    override: PlanTerms.nullable(),
    /** Its effective terms, including the plan's. */
    terms: PlanTerms,
  }),
  z.object({
    kind: z.literal('key'),
    name: z.string(),
    account: z.string(),
    state: z.enum(['active', 'rotating', 'expired', 'revoked']),
    last4: z.string(),
    created_at: z.string(),
    expires_at: z.string().nullable(),
    revoked_at: z.string().nullable(),
    old_secret_until: z.string().nullable(),
    terms: KeyTerms.nullable(),
  }),
  z.object({
    kind: z.literal('plan'),
    name: z.string(),
    state: z.enum(['active', 'retired']),
    terms: PlanTerms,
  }),
]);
export type SubjectState = z.infer<typeof SubjectState>;

/** Folded from the events up to that position only. */
export const PastState = z.object({
  object: z.literal('state'),
  position: z.number(),
  /** The time of that event; null before the first. */
  at: z.string().nullable(),
  head: z.number(),
  /** Null: it didn't exist yet. */
  subject: SubjectState.nullable(),
  /** Its events, newest first. Those beyond the limit are only counted. */
  events: z.array(z.object({ position: z.number(), at: z.string(), type: z.string() })),
  events_omitted: z.number(),
});
export type PastState = z.infer<typeof PastState>;

/** The result of a check of the log. */
export const CheckResult = z.object({
  /** `log`: the log against its checkpoints. Otherwise a projection, against a replay. */
  target: z.string(),
  started_at: z.string(),
  duration_ms: z.number(),
  /** Who started it: a member, or a management key. */
  actor: z.string(),
  outcome: z.enum(['verified', 'mismatch', 'failed', 'timed_out', 'canceled']),
  /** One sentence for people. */
  summary: z.string(),
  position: z.number(),
  /** Findings by position. */
  findings: z.array(z.object({ position: z.number().nullable(), where: z.string(), problem: z.string() })),
  findings_omitted: z.number(),
});
export type CheckResult = z.infer<typeof CheckResult>;

/**
 * `GET /api/v1/audit/checks`: the newest result of each check on this server process, and the running check.
 */
export const Checks = z.object({
  object: z.literal('checks'),
  running: z.object({ target: z.string(), done: z.number(), of: z.number() }).nullable(),
  latest: z.array(CheckResult),
  projections: z.array(z.string()),
  /** Longer logs are checked by the command line. */
  events_max: z.number(),
  head: z.number(),
});
export type Checks = z.infer<typeof Checks>;

/**
 * `POST /api/v1/audit/checks` → lines of JSON while it runs, each a {@link CheckLine}. Closing the connection
 * cancels it.
 */
export const StartCheck = z.strictObject({ target: z.string().regex(/^[a-z_]{1,40}$/) });
export const CheckLine = z.union([
  z.object({ done: z.number(), of: z.number() }),
  z.object({ result: CheckResult }),
]);
export type CheckLine = z.infer<typeof CheckLine>;

/** `POST /api/v1/audit/receipt`: verifies a receipt against this log. */
export const CheckReceipt = z.strictObject({ receipt: z.string().min(1).max(60_000) });
export const ReceiptCheckResult = z.object({
  object: z.literal('receipt_check'),
  valid: z.boolean(),
  /** The proven statements. */
  statements: z.array(z.string()),
  /** Why the receipt is invalid. */
  problem: z.string().nullable(),
});
export type ReceiptCheckResult = z.infer<typeof ReceiptCheckResult>;
