import type { ControlEvent, EventOf } from '#db/events/events.ts';

/** Control events on which neither the permissions of a call nor a session depend. */
const TYPES = [
  'attribution.erased',
  'attribution.key_destroyed',
  'reconciliation.recorded',
  'sink.configured',
  'sink.removed',
  'sink.paused',
  'sink.resumed',
  'sink.rewound',
  'billing.changed',
  'invoice.issued',
  'invoice.corrected',
  'invoice.credited',
  'session.opened',
  'invitation.created',
  'invitation.revoked',
  'log.signer_changed',
  'log.epoch_started',
  'log.read',
] as const;
const ALL: ReadonlySet<string> = new Set(TYPES);

export const hasNoEffect = (event: ControlEvent): event is EventOf<(typeof TYPES)[number]> =>
  ALL.has(event.type);
