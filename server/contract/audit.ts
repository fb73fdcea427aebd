import { z } from 'zod';
import { Id } from '#db/events/parts.ts';
import type { KeyTerms, PlanTerms } from '#db/events/events.ts';

/** Contract for proofs, checks and past states of the event log. Pure. */

/** A published checkpoint. `size` is the position of the newest event that it covers. */
export type CheckpointRow = {
  epoch: number;
  size: number;
  /** Standard base64, as in the note. */
  root: string;
  /** The note's signature lines: each a name and a key id. */
  signed_by: { name: string; key_id: string }[];
  published_at: string;
  /** Witnesses that cosigned this checkpoint. */
  witnesses: string[];
  /** The signed note. */
  note: string;
};

export type LogKey = {
  /** The verifier key for auditors and witnesses. */ verifier_key: string;
  key_id: string;
  /** The position of the event that added the key. */ position: number;
  at: string | null;
  /** Whether this key signed the newest checkpoint. */ is_signing: boolean;
};

/** A witness of the log. Null fields: it has never reported. */
export type WitnessRow = {
  name: string;
  /** Whether it is configured in WITNESSES. */ configured: boolean;
  size: number | null;
  seen_at: string | null;
  /** Events behind the newest checkpoint. */ behind: number | null;
};

/**
 * `GET /api/v1/audit/proof`, for administrators and auditors: which part of the log is signed, and by which
 * keys and witnesses.
 */
export type Proof = {
  object: 'proof';
  now: string;
  log: {
    id: string;
    origin: string;
    epoch: number;
    head: number;
    /** The first position that isn't archived. */ first: number;
  };
  latest: CheckpointRow | null;
  /** Events without a checkpoint, and the time of the oldest. */
  uncovered: { events: number; since: string | null };
  keys: LogKey[];
  /** Histories that a restore abandoned. */
  lost: { epoch: number; size: number; root: string; position: number; at: string | null }[];
  witnesses: WitnessRow[];
};

/** `GET /api/v1/audit/checkpoints`, newest first. */
export const CheckpointsQuery = z.strictObject({
  limit: z.coerce.number().int().min(1).max(200).default(50),
  cursor: z
    .string()
    .regex(/^\d{1,9}-\d{1,15}$/, 'must be one that a page gave as "next"')
    .optional(),
});
export type CheckpointPage = { object: 'list'; data: CheckpointRow[]; next: string | null };

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

export type SubjectState =
  | {
      kind: 'account';
      name: string;
      state: 'active' | 'suspended';
      plan: string | null;
      override: PlanTerms | null;
      /** Its effective terms, including the plan's. */ terms: PlanTerms;
    }
  | {
      kind: 'key';
      name: string;
      account: string;
      state: 'active' | 'rotating' | 'expired' | 'revoked';
      last4: string;
      created_at: string;
      expires_at: string | null;
      revoked_at: string | null;
      old_secret_until: string | null;
      terms: KeyTerms | null;
    }
  | { kind: 'plan'; name: string; state: 'active' | 'retired'; terms: PlanTerms };

/** Folded from the events up to that position only. */
export type PastState = {
  object: 'state';
  position: number;
  /** The time of that event; null before the first. */
  at: string | null;
  head: number;
  /** Null: it didn't exist yet. */
  subject: SubjectState | null;
  /** Its events, newest first. Those beyond the limit are only counted. */
  events: { position: number; at: string; type: string }[];
  events_omitted: number;
};

/** The result of a check of the log. */
export type CheckResult = {
  /** `log`: the log against its checkpoints. Otherwise a projection, against a replay. */
  target: string;
  started_at: string;
  duration_ms: number;
  /** The member who started it. */
  actor: string;
  outcome: 'verified' | 'mismatch' | 'failed' | 'timed_out' | 'canceled';
  /** One sentence for people. */
  summary: string;
  position: number;
  /** Findings by position. */
  findings: { position: number | null; where: string; problem: string }[];
  findings_omitted: number;
};

/**
 * `GET /api/v1/audit/checks`: the newest result of each check on this server process, and the running check.
 */
export type Checks = {
  object: 'checks';
  running: { target: string; done: number; of: number } | null;
  latest: CheckResult[];
  projections: string[];
  /** Longer logs are checked by the command line. */
  events_max: number;
  head: number;
};

/**
 * `POST /api/v1/audit/checks` → lines of JSON while it runs, each a {@link CheckLine}. Closing the connection
 * cancels it.
 */
export const StartCheck = z.strictObject({ target: z.string().regex(/^[a-z_]{1,40}$/) });
export type CheckLine = { done: number; of: number } | { result: CheckResult };

/** `POST /api/v1/audit/receipt`: verifies a receipt against this log. */
export const CheckReceipt = z.strictObject({ receipt: z.string().min(1).max(60_000) });
export type ReceiptCheckResult = {
  object: 'receipt_check';
  valid: boolean;
  /** The proven statements. */ statements: string[];
  /** Why the receipt is invalid. */ problem: string | null;
};
