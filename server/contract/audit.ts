import { z } from 'zod';
import { Id } from '#db/events/parts.ts';
import type { KeyTerms, PlanTerms } from '#db/events/events.ts';

/** What the dashboard and the server say to one another about the proof of the log. Pure. */

/**
 * A head of the log that was signed and published. `size` is the position of the newest event that it covers.
 */
export type CheckpointRow = {
  epoch: number;
  size: number;
  /** Standard base64, as it stands in the note. */
  root: string;
  /** The lines of the note that say who signed: each a name and a key's id. */
  signed_by: { name: string; key_id: string }[];
  published_at: string;
  /** The witnesses that have cosigned this very head. */
  witnesses: string[];
  /** As it was signed. */
  note: string;
};

export type LogKey = {
  /** The line that auditors and witnesses are given. */ verifier_key: string;
  key_id: string;
  /** The position of the event that put it down. */ position: number;
  at: string | null;
  /** Whether the newest checkpoint has its signature. */ is_signing: boolean;
};

/** Somebody elsewhere who follows the log. Null: never heard of. */
export type WitnessRow = {
  name: string;
  /** Whether the operator has named it. */ configured: boolean;
  size: number | null;
  seen_at: string | null;
  /** Events behind the newest checkpoint. */ behind: number | null;
};

/** `GET /api/audit/proof`, for administrators and auditors: how much of the log is proved, and by whom. */
export type Proof = {
  object: 'proof';
  now: string;
  log: {
    id: string;
    origin: string;
    epoch: number;
    head: number;
    /** The first position that is not archived. */ first: number;
  };
  latest: CheckpointRow | null;
  /** Events that no checkpoint covers yet, and since when the oldest of them is there. */
  uncovered: { events: number; since: string | null };
  keys: LogKey[];
  /** Histories that were given up on purpose. */
  lost: { epoch: number; size: number; root: string; position: number; at: string | null }[];
  witnesses: WitnessRow[];
};

/** `GET /api/audit/checkpoints`, the newest first. */
export const CheckpointsQuery = z.strictObject({
  limit: z.coerce.number().int().min(1).max(200).default(50),
  cursor: z
    .string()
    .regex(/^\d{1,9}-\d{1,15}$/, 'must be one that a page gave as "next"')
    .optional(),
});
export type CheckpointPage = { object: 'list'; data: CheckpointRow[]; next: string | null };

const Position = z.coerce.number().int().min(0);
/** `GET /api/audit/state`: an account, a key or a plan as it was after a position, or at a time. */
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
    { path: ['account'], message: 'or "key" or "plan" says what is meant: one of them' },
  )
  .refine(({ at, time }) => at === undefined || time === undefined, {
    path: ['time'],
    message: 'can\'t go with "at": it is a position or a time',
  });
export type StateQuery = z.infer<typeof StateQuery>;

export type SubjectState =
  | {
      kind: 'account';
      name: string;
      state: 'active' | 'suspended';
      plan: string | null;
      override: PlanTerms | null;
      /** What it might use then, its plan's terms included. */ terms: PlanTerms;
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

/** Folded from the events up to there, and from nothing else. */
export type PastState = {
  object: 'state';
  position: number;
  /** The time of the event there; null before the first. */
  at: string | null;
  head: number;
  /** Null: it was not there yet. */
  subject: SubjectState | null;
  /** The events that it was made from, the newest first. Those beyond are only counted. */
  events: { position: number; at: string; type: string }[];
  events_omitted: number;
};

/** What went over the log, and what came of it. */
export type CheckResult = {
  /** `log`: the log against its checkpoints. Else a projection, against a replay. */
  target: string;
  started_at: string;
  duration_ms: number;
  /** Who asked for it. */
  member: string;
  outcome: 'verified' | 'mismatch' | 'failed' | 'timed_out' | 'canceled';
  /** One line for people. */
  summary: string;
  position: number;
  /** What is wrong, the first place first. */
  findings: { position: number | null; where: string; problem: string }[];
  findings_omitted: number;
};

/**
 * `GET /api/audit/checks`: what was checked last by the server process that answers, and what it works on.
 */
export type Checks = {
  object: 'checks';
  running: { target: string; done: number; of: number } | null;
  latest: CheckResult[];
  projections: string[];
  /** Logs that are longer are checked by the command line. */
  events_max: number;
  head: number;
};

/**
 * `POST /api/audit/checks` → lines of JSON while it works, each a {@link CheckLine}. Whoever closes
 * the connection cancels it.
 */
export const StartCheck = z.strictObject({ target: z.string().regex(/^[a-z_]{1,40}$/) });
export type CheckLine = { done: number; of: number } | { result: CheckResult };

/** `POST /api/audit/receipt`: whether a receipt is one of this log. */
export const CheckReceipt = z.strictObject({ receipt: z.string().min(1).max(60_000) });
export type ReceiptCheckResult = {
  object: 'receipt_check';
  valid: boolean;
  /** What it proves, in plain words. */ statements: string[];
  /** Why it proves nothing. */ problem: string | null;
};
