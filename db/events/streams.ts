import type { ControlEvent, EventOf } from '#db/events/events.ts';
import type {
  AccountEvent,
  AttributionEvent,
  IdentityProviderEvent,
  KeyEvent,
  ManagementKeyEvent,
  MemberEvent,
  ModelEvent,
  PlanEvent,
  SinkEvent,
  SigningEvent,
  UpstreamEvent,
  WorkloadEvent,
} from '#db/events/subjects.ts';

/** The stream of what concerns the log as a whole. */
export const LOG_STREAM = 'log';
/** The stream of comparisons of the log with bills. */
export const RECONCILIATION_STREAM = 'reconciliation';
/** The stream of who issues invoices. */
export const BILLING_STREAM = 'billing';
/** The stream of invoices and credit notes, whose versions are their numbers. */
export const INVOICE_STREAM = 'invoice';
/** The stream of who has read the log. */
const READINGS_STREAM = 'log/readings';

/**
 * The stream that a control event belongs to: one per account, key, plan, priced model, dispatched model,
 * upstream, member, invitation, session, sink, management key, identity
 * provider and workload.
 */
export function streamOf(event: ControlEvent): string {
  switch (event.type) {
    case 'account.registered':
    case 'account.suspended':
    case 'account.reinstated':
    case 'account.plan_changed':
    case 'account.terms_overridden':
    case 'account.parent_changed':
    case 'account.topped_up':
      return `account/${event.account}`;
    case 'key.created':
    case 'key.rotated':
    case 'key.revoked':
    case 'key.restricted':
    case 'key.expired':
    case 'key.renamed':
      return `key/${event.key}`;
    case 'plan.defined':
    case 'plan.changed':
    case 'plan.retired':
      return `plan/${event.plan}`;
    case 'model.priced':
      return event.plan === undefined ? `model/${event.model}` : `plan_price/${event.plan}/${event.model}`;
    // Not the stream of its price: requests state the price version by which they were charged.
    case 'model.defined':
    case 'model.retired':
      return `dispatch/${event.model}`;
    case 'upstream.added':
    case 'upstream.changed':
    case 'upstream.removed':
    case 'upstream.credential_added':
    case 'upstream.credential_removed':
      return `upstream/${event.upstream}`;
    case 'member.added':
    case 'member.role_changed':
    case 'member.removed':
    case 'member.password_changed':
    case 'member.totp_changed':
    case 'member.reset_link_created':
      return `member/${event.member}`;
    case 'invitation.created':
    case 'invitation.revoked':
      return `invitation/${event.invitation}`;
    case 'session.opened':
    case 'session.closed':
      return `session/${event.session}`;
    case 'management_key.created':
    case 'management_key.revoked':
      return `management_key/${event.management_key}`;
    case 'identity_provider.configured':
    case 'identity_provider.removed':
      return `identity_provider/${event.provider}`;
    case 'workload.configured':
    case 'workload.removed':
      return `workload/${event.workload}`;
    case 'sign_in.changed':
      return 'sign_in';
    case 'registration.changed':
      return 'registration';
    case 'log.signer_changed':
    case 'log.epoch_started':
      return LOG_STREAM;
    case 'log.read':
      return READINGS_STREAM;
    // Not the account's: a release that doesn't know the type skips it, and counts the account's versions.
    case 'quota.adjusted':
      return `quota/${event.account}`;
    case 'attribution.erased':
    case 'attribution.key_destroyed':
      return `attribution/${event.account}`;
    case 'reconciliation.recorded':
      return RECONCILIATION_STREAM;
    case 'sink.configured':
    case 'sink.removed':
    case 'sink.paused':
    case 'sink.resumed':
    case 'sink.rewound':
      return `sink/${event.sink}`;
    case 'billing.changed':
      return BILLING_STREAM;
    // One for all accounts: the version is the number.
    case 'invoice.issued':
    case 'invoice.corrected':
    case 'invoice.credited':
      return INVOICE_STREAM;
  }
}

/** The events of a stream, by what stands before the slash in its name; see {@link streamOf}. */
type EventsOfKind = {
  account: AccountEvent;
  key: KeyEvent;
  plan: PlanEvent;
  model: EventOf<'model.priced'>;
  plan_price: EventOf<'model.priced'>;
  dispatch: ModelEvent;
  upstream: UpstreamEvent;
  member: MemberEvent;
  management_key: ManagementKeyEvent;
  identity_provider: IdentityProviderEvent;
  workload: WorkloadEvent;
  sign_in: EventOf<'sign_in.changed'>;
  registration: EventOf<'registration.changed'>;
  log: SigningEvent;
  quota: EventOf<'quota.adjusted'>;
  attribution: AttributionEvent;
  reconciliation: EventOf<'reconciliation.recorded'>;
  sink: SinkEvent;
  billing: EventOf<'billing.changed'>;
  invoice: EventOf<'invoice.issued' | 'invoice.corrected' | 'invoice.credited'>;
};
type KindOf<Stream> = Stream extends `${infer Kind}/${string}` ? Kind : Stream;

/** The events that a stream of this name can have. */
export type EventOfStream<Stream extends string> = Stream extends typeof READINGS_STREAM
  ? EventOf<'log.read'>
  : KindOf<Stream> extends keyof EventsOfKind
    ? EventsOfKind[KindOf<Stream>]
    : ControlEvent;
