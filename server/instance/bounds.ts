import { CLOSE_TIMEOUT_MS } from '#db/bounds.ts';
import { assertIncreasing } from '#db/assert-increasing.ts';

/** Fixed bounds of what one instance appends to the log, each with its reason. */

/** Rejected calls of the same kind are recorded as one event per this interval. */
export const REJECTIONS_COALESCE_MS = 1_000;
/** Kinds of rejected calls that are collected before they are recorded early. */
export const REJECTION_KINDS_MAX = 10_000;

/** Kinds of rejected calls of one key that are recorded with their attribution, per interval. */
export const REJECTION_ATTRIBUTIONS_MAX = 100;
/** The same with their model, where they are recorded without attribution. */
export const REJECTION_MODELS_MAX = 100;

/** Events in one append: beyond this a batch gets no cheaper per event, only slower. */
export const APPEND_BATCH_MAX = 1_000;
/** How long a batch may gather while more events are queued: well below what a commit takes under load. */
export const GATHER_MAX_MS = 2;
/** A settled event that no caller waits for may wait this long for others: fewer, larger commits. */
export const SETTLE_LINGER_MS = 2;
/**
 * The same of a settled event whose units no other call needs soon: at everyday load it shares the commit of
 * the next accepted event. A server that is killed meanwhile has the call charged as it was reserved.
 */
export const SETTLE_LINGER_MAX_MS = 20;
/**
 * The same of an accepted event whose call has been sent to its upstream already. It ends when the reply
 * begins, so that it delays no reply.
 */
export const OVERLAPPED_LINGER_MS = 5;
/** The mean time between notifications of a log in steady use: half of the projector's between pages. */
export const NOTIFY_EVERY_MS = 250;
/** Notifications that may follow one another at once after a pause: the events of a few calls. */
export const NOTIFY_AT_ONCE = 8;
/** Accepted events waiting for the store; more means that it is too slow to admit anything. */
export const ACCEPT_QUEUE_MAX = 10_000;
/**
 * Settled events waiting for the store. Beyond it one is lost to this process and the request is abandoned
 * with its whole reservation: an over-charge that is visible, never an under-charge.
 */
export const SETTLE_QUEUE_MAX = 100_000;

/** The least that a streamed call is taken to relay between heartbeats; most models produce half as many. */
export const HEARTBEAT_TOKENS_MIN = 500;
/** Calls whose progress is in a heartbeat: 40 kB a second. */
export const PROGRESS_CALLS_MAX = 1_000;

/** How long a stopping server waits for the store to take the last settled events. */
export const LAST_ENDINGS_MS = 5_000;
/** How long it waits for the last report of its leases. */
export const LAST_REPORT_MS = 1_000;

assertIncreasing(
  { 'kinds of one key': REJECTION_ATTRIBUTIONS_MAX + REJECTION_MODELS_MAX, REJECTION_KINDS_MAX },
  'One key must not use up the kinds of all.',
);
assertIncreasing(
  { SETTLE_LINGER_MS, SETTLE_LINGER_MAX_MS },
  'A settled event that other calls wait for must not wait longer than one that they do not.',
);
assertIncreasing(
  { APPEND_BATCH_MAX, ACCEPT_QUEUE_MAX, SETTLE_QUEUE_MAX },
  'Queues must hold more than one batch, and settled events must find room when accepted ones are rejected.',
);
assertIncreasing(
  { CLOSE_TIMEOUT_MS, LAST_REPORT_MS, LAST_ENDINGS_MS },
  'The last writes must have more time than closing a connection takes.',
);
