import type { Event, EventOf, EventType, KeyTerms } from '#db/events/events.ts';
import { METERS, type Meter } from '#db/limits/meters.ts';
import type { Target, UpstreamTerms } from '#db/events/upstream-events.ts';
import type { EventRow } from '#server/contract/events.ts';
import {
  showCost,
  showCount,
  showCounted,
  showDuration,
  showTime,
  type Zone,
} from '../../lib/format/show.ts';
import { showAmount } from '../../lib/format/limits.ts';
import { glanceAtTerms } from '../../ui/terms/glance.ts';

/** One-line descriptions of events. Pure. */

const TYPES: Record<EventType, true> = {
  'request.accepted': true,
  'request.extended': true,
  'request.settled': true,
  'request.abandoned': true,
  'request.rejected': true,
  'key.created': true,
  'key.renamed': true,
  'key.restricted': true,
  'key.rotated': true,
  'key.revoked': true,
  'key.expired': true,
  'account.registered': true,
  'account.plan_changed': true,
  'account.terms_overridden': true,
  'account.suspended': true,
  'account.reinstated': true,
  'account.parent_changed': true,
  'account.topped_up': true,
  'member.added': true,
  'member.role_changed': true,
  'member.removed': true,
  'member.password_changed': true,
  'member.totp_changed': true,
  'member.reset_link_created': true,
  'session.opened': true,
  'session.closed': true,
  'invitation.created': true,
  'invitation.revoked': true,
  'plan.defined': true,
  'plan.changed': true,
  'plan.retired': true,
  'model.priced': true,
  'model.defined': true,
  'model.retired': true,
  'upstream.added': true,
  'upstream.changed': true,
  'upstream.removed': true,
  'upstream.credential_added': true,
  'upstream.credential_removed': true,
  'registration.changed': true,
  'log.signer_changed': true,
  'log.epoch_started': true,
  'log.read': true,
  'usage.adjusted': true,
  'tokens.counted': true,
  'quota.adjusted': true,
  'attribution.erased': true,
  'attribution.key_destroyed': true,
  'reconciliation.recorded': true,
  'sink.configured': true,
  'sink.removed': true,
  'sink.paused': true,
  'sink.resumed': true,
  'sink.rewound': true,
  'billing.changed': true,
  'invoice.issued': true,
  'invoice.corrected': true,
  'invoice.credited': true,
  'management_key.created': true,
  'management_key.revoked': true,
  'identity_provider.configured': true,
  'identity_provider.removed': true,
  'sign_in.changed': true,
  'workload.configured': true,
  'workload.removed': true,
  'workload.exchanged': true,
};

type Group = EventType extends `${infer Subject}.${string}` ? Subject : never;
const GROUP_NAMES: Record<Group, string> = {
  request: 'Requests',
  key: 'Keys',
  account: 'Accounts',
  member: 'Members',
  session: 'Sessions',
  invitation: 'Invitations',
  plan: 'Plans',
  model: 'Models and prices',
  upstream: 'Upstreams',
  registration: 'Sign-up',
  log: 'Event log',
  usage: 'Corrections',
  tokens: 'Token counts',
  quota: 'Quotas',
  attribution: 'Attribution',
  reconciliation: 'Reconciliation',
  sink: 'Sinks',
  billing: 'Billing',
  invoice: 'Invoices',
  management_key: 'Management keys',
  identity_provider: 'Identity providers',
  sign_in: 'Sign-in settings',
  workload: 'Workloads',
};

/** Every event type, grouped by subject. */
export const EVENT_GROUPS = Object.entries(GROUP_NAMES).map(([group, name]) => ({
  group,
  name,
  types: Object.keys(TYPES).filter((type) => type.startsWith(`${group}.`)),
}));

/** Display names of ids, and the time zone to show times in. */
export type Names = {
  key: (id: string) => string;
  account: (id: string) => string;
  member: (id: string) => string;
  zone: Zone;
};

const quoted = (name: string): string => `“${name}”`;
const inWords = (name: string): string => name.replaceAll('_', ' ');
const listed = (terms: KeyTerms): string => glanceAtTerms(terms).join(', ') || 'unlimited';
const targets = (list: readonly Target[]): string =>
  list.map(({ upstream, model }) => (model === undefined ? upstream : `${upstream} (${model})`)).join(', ');
const endpoint = ({ provider, package: name, base_url, paused }: UpstreamTerms): string =>
  `${provider} at ${base_url ?? name ?? 'its default address'}${paused ? ', paused' : ''}`;
const metered = (meter: Meter, count: number): string =>
  `${showCount(count)} ${METERS[meter].units[count === 1 ? 0 : 1]}`;
const planName = (plan: string | null): string => (plan === null ? 'no plan' : `plan ${quoted(plan)}`);
const windows = (choice: 'keep' | 'reset'): string =>
  choice === 'reset' ? ' Current windows were reset.' : '';

/** Describes an event in one sentence. Returns the type of an event that this page does not know. */
export function describeEvent({ type, actor, fields }: EventRow, names: Names): string {
  // The server returns events of the shared schema, without the digests of secrets.
  const event = { type, actor, ...fields } as unknown as Event;
  const time = (iso: string): string => showTime(iso, names.zone);
  const key = (id: string): string => `Key ${quoted(names.key(id))}`;
  const account = (id: string): string => `Account ${quoted(names.account(id))}`;
  switch (event.type) {
    case 'account.registered':
      return `Account ${quoted(event.name)} created.`;
    case 'account.suspended':
      return `${account(event.account)} suspended.`;
    case 'account.reinstated':
      return `${account(event.account)} reinstated.`;
    case 'account.parent_changed':
      return event.parent === null
        ? `${account(event.account)} has no parent account.`
        : `${account(event.account)} is below account ${quoted(names.account(event.parent))}.`;
    case 'account.topped_up':
      return `${account(event.account)} topped up by ${showCost(event.amount_nanousd)}: ${event.reference}`;
    case 'account.plan_changed':
      return `${account(event.account)} moved to ${planName(event.plan)}.${windows(event.windows)}`;
    case 'account.terms_overridden': {
      const isRemoved = Object.keys(event.terms).length === 0;
      const done = isRemoved ? 'override removed' : `overridden: ${listed(event.terms)}`;
      return `${account(event.account)}: plan ${done}.${windows(event.windows)}`;
    }
    case 'key.created': {
      const expiry = event.expires_at === undefined ? '' : `, expires ${time(event.expires_at)}`;
      return `Key ${quoted(event.name)} created${expiry}.`;
    }
    case 'key.rotated': {
      const ends = event.overlap_ends_at;
      const old = ends === undefined ? 'expired immediately' : `expires ${time(ends)}`;
      return `${key(event.key)} rotated. The old secret ${old}.`;
    }
    case 'key.revoked':
      return `${key(event.key)} revoked.`;
    case 'key.expired':
      return `${key(event.key)} expired.`;
    case 'key.renamed':
      return `Key ${event.key} renamed to ${quoted(event.name)}.`;
    case 'key.restricted': {
      const expiry = event.expires_at == null ? '' : ` Expires ${time(event.expires_at)}.`;
      return `${key(event.key)} restrictions set: ${listed(event.terms)}.${expiry}${windows(event.windows)}`;
    }
    case 'plan.defined':
      return `Plan ${quoted(event.plan)} created: ${listed(event.terms)}.`;
    case 'plan.changed':
      return `Plan ${quoted(event.plan)} changed: ${listed(event.terms)}.${windows(event.windows)}`;
    case 'plan.retired':
      return `Plan ${quoted(event.plan)} retired.`;
    case 'model.priced': {
      const { base, rules, plan } = event;
      const { input, output } = base;
      const parts = [
        input === undefined ? [] : `${showCost(input)} input`,
        output === undefined ? [] : `${showCost(output)} output`,
        rules === undefined ? [] : `${rules.length} ${rules.length === 1 ? 'rule' : 'rules'}`,
      ].flat();
      const of = plan === undefined ? '' : ` on plan ${quoted(plan)}`;
      return `Model ${quoted(event.model)} price${of} set: ${parts.join(', ')} per million tokens.`;
    }
    case 'model.defined': {
      const { terms } = event;
      const route =
        'alias_of' in terms
          ? `is an alias of ${quoted(terms.alias_of)}`
          : `routes to ${targets(terms.targets)}`;
      return `Model ${quoted(event.model)} ${route}.`;
    }
    case 'model.retired':
      return `Model ${quoted(event.model)} retired.`;
    case 'upstream.added':
      return `Upstream ${quoted(event.upstream)} added: ${endpoint(event.terms)}.`;
    case 'upstream.changed':
      return `Upstream ${quoted(event.upstream)} changed: ${endpoint(event.terms)}.`;
    case 'upstream.removed':
      return `Upstream ${quoted(event.upstream)} and its credentials removed.`;
    case 'upstream.credential_added':
      return (
        `${event.purpose === 'billing' ? 'Billing credential' : 'Credential'} ${quoted(event.label)} ` +
        `added to upstream ${quoted(event.upstream)}.`
      );
    case 'upstream.credential_removed':
      return `Credential ${event.credential} removed from upstream ${quoted(event.upstream)}.`;
    case 'member.added': {
      const joined = `joined account ${quoted(names.account(event.account))}`;
      return `${names.member(event.member)} ${joined} as ${event.role}.`;
    }
    case 'member.role_changed':
      return `${names.member(event.member)} is now ${event.role}.`;
    case 'member.removed':
      return `${names.member(event.member)} removed.`;
    case 'member.password_changed':
      return `${names.member(event.member)} changed their password.`;
    case 'member.totp_changed':
      return `${names.member(event.member)}: two-factor authentication ${event.enabled ? 'on' : 'off'}.`;
    case 'member.reset_link_created':
      return `Password reset link created for ${names.member(event.member)}.`;
    case 'invitation.created':
      return `Invitation created for the role ${event.role}, expires ${time(event.expires_at)}.`;
    case 'invitation.revoked':
      return `Invitation ${event.invitation} revoked.`;
    case 'session.opened':
      return `${names.member(event.member)} signed in.`;
    case 'session.closed':
      return `${names.member(event.member)} signed out.`;
    case 'registration.changed': {
      const policy = event.policy === 'invite' ? 'invite only' : event.policy;
      return `Sign-up is ${policy}. New accounts start on ${planName(event.plan)}.`;
    }
    case 'log.signer_changed':
      return `Signing key changed to ${event.verifier_key.split('+')[1] ?? ''}.`;
    case 'log.epoch_started': {
      const published = showCounted(event.lost_size, 'event');
      return `Epoch ${event.epoch} started from a backup. The previous epoch had published ${published}.`;
    }
    case 'log.read': {
      const range = `${showCount(event.from_position)} to ${showCount(event.to_position)}`;
      return `Event log read (${event.what}), positions ${range}.`;
    }
    case 'quota.adjusted': {
      const subject = event.key === undefined ? account(event.account) : key(event.key);
      const change = event.amount < 0 ? 'reduced' : 'increased';
      const units = Math.abs(event.amount);
      const amount = showAmount(event.meter, units, (count) => metered(event.meter, count));
      return `${subject}: usage of the ${event.window} ${change} by ${amount}. ${event.reason}`;
    }
    case 'attribution.erased':
      return `${account(event.account)}: value of ${inWords(event.kind)} ${event.pseudonym} erased.`;
    case 'attribution.key_destroyed':
      return `${account(event.account)}: attribution key destroyed, and all values erased.`;
    case 'reconciliation.recorded': {
      const amounts = `billed ${showCost(event.bill_nanousd)}, recorded ${showCost(event.log_nanousd)}`;
      return `Bill of ${event.provider} compared with the log: ${amounts}.`;
    }
    case 'sink.configured':
      return `Sink ${quoted(event.sink)} (${event.kind}) configured.`;
    case 'sink.removed':
      return `Sink ${quoted(event.sink)} removed.`;
    case 'sink.paused':
      return `Sink ${quoted(event.sink)} paused.`;
    case 'sink.resumed':
      return `Sink ${quoted(event.sink)} resumed.`;
    case 'sink.rewound': {
      const [from, to] = [showCount(event.from_position), showCount(event.position)];
      return `Sink ${quoted(event.sink)} moved from position ${from} to ${to}.`;
    }
    case 'management_key.created':
      return `Management key ${quoted(event.name)} created: ${event.scopes.join(', ')}.`;
    case 'management_key.revoked':
      return `Management key ${event.management_key} revoked.`;
    case 'identity_provider.configured': {
      const rules = showCounted(event.terms.rules.length, 'rule');
      return `Identity provider ${quoted(event.provider)} configured with ${rules}.`;
    }
    case 'identity_provider.removed':
      return `Identity provider ${quoted(event.provider)} removed.`;
    case 'sign_in.changed':
      return `Password sign-in is for ${event.passwords}.`;
    case 'workload.configured':
      return `Workload ${quoted(event.workload)} configured for tokens of ${event.terms.issuer}.`;
    case 'workload.removed':
      return `Workload ${quoted(event.workload)} removed, and its key revoked.`;
    case 'workload.exchanged': {
      const claims = Object.entries(event.claims).map(([claim, value]) => `${claim} ${value}`);
      return `Workload ${quoted(event.workload)} issued a short-lived key: ${claims.join(', ')}.`;
    }
    case 'billing.changed':
      return `Issuer of invoices is ${quoted(event.terms.name)}.`;
    case 'invoice.issued':
      return `${account(event.account)}: invoice ${event.series}${event.number} issued.`;
    case 'invoice.corrected':
      return (
        `${account(event.account)}: credit note ${event.series}${event.number} for corrections of invoice ` +
        `number ${event.invoice}.`
      );
    case 'invoice.credited':
      return (
        `${account(event.account)}: credit note ${event.series}${event.number} for invoice number ` +
        `${event.invoice}. ${event.reason}`
      );
    case 'request.accepted': {
      const reserved = showCounted(event.hold_tokens, 'token');
      if (event.batch !== undefined)
        return `${key(event.key)} submitted a batch line to ${event.model}; ${reserved} reserved.`;
      return `${key(event.key)} requested ${event.model}; ${reserved} reserved.`;
    }
    case 'request.extended':
      if (event.handed_over) return `Response of ${event.model} continues in the background.`;
      return `Reservation for ${event.model} extended to ${showCounted(event.hold_tokens, 'token')}.`;
    case 'request.settled': {
      const ended = `${inWords(event.end_reason)} after ${showDuration(event.duration_ms)}`;
      const input = showCount(event.input_tokens);
      const tokens = `${input} input, ${showCount(event.output_tokens)} output tokens`;
      const cost = event.cost_nanousd === undefined ? '' : `, ${showCost(event.cost_nanousd)}`;
      return `${event.model} with key ${quoted(names.key(event.key))}: ${ended}. ${tokens}${cost}.`;
    }
    case 'request.abandoned': {
      const request = `${event.model} with key ${quoted(names.key(event.key))}`;
      const charged = showCounted(event.hold_tokens, 'token');
      return `${request}: abandoned because its server crashed; ${charged} charged.`;
    }
    case 'request.rejected': {
      const requests = event.rejected_count > 1 ? showCounted(event.rejected_count, 'request') : 'Request';
      const reason = `${event.status} ${event.error_code}`;
      return `${requests} with key ${quoted(names.key(event.key))} rejected: ${reason}.`;
    }
    case 'tokens.counted': {
      const how = event.usage_source === 'provider' ? '' : ', estimated';
      return `Tokens of a request for ${event.model} counted: ${showCount(event.input_tokens)}${how}.`;
    }
    case 'usage.adjusted': {
      const request = `Request for ${event.model} with key ${quoted(names.key(event.key))}`;
      return `${request} corrected: ${describeCorrection(event)}. ${event.reason}`;
    }
    default:
      return type;
  }
}

const signed = (amount: number, text: string): string => `${amount < 0 ? '−' : '+'}${text}`;

/** What a correction adds to the charge and the tokens. */
function describeCorrection(event: EventOf<'usage.adjusted'>): string {
  const { cost_nanousd: cost = 0, input_tokens = 0, output_tokens = 0, hold_tokens = 0 } = event;
  const tokens = (amount: number, what: string): string[] =>
    amount === 0 ? [] : [`${signed(amount, showCount(Math.abs(amount)))} ${what} tokens`];
  return [
    `charge ${signed(cost, showCost(Math.abs(cost)))}`,
    ...tokens(input_tokens, 'input'),
    ...tokens(output_tokens, 'output'),
    ...tokens(hold_tokens, 'reserved'),
  ].join(', ');
}
