import type { Event, EventType, KeyTerms } from '#db/events/events.ts';
import type { Target, UpstreamTerms } from '#db/events/upstream-events.ts';
import type { EventRow } from '#server/contract/events.ts';
import type { Zone } from '../../lib/show.ts';
import { showCost, showCount, showCounted, showDuration, showTime } from '../../lib/show.ts';
import { glanceAtTerms } from '../../ui/terms/summary.ts';

/** Events in one line of plain English. Pure. */

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
  registration: 'Registration',
  log: 'The log itself',
};

/** Every type, by what it is about. */
export const EVENT_GROUPS = Object.entries(GROUP_NAMES).map(([group, name]) => ({
  group,
  name,
  types: Object.keys(TYPES).filter((type) => type.startsWith(`${group}.`)),
}));

/** What ids are called, and in which zone times are told. */
export type Names = {
  key: (id: string) => string;
  account: (id: string) => string;
  member: (id: string) => string;
  zone: Zone;
};

const quoted = (name: string): string => `“${name}”`;
const inWords = (name: string): string => name.replaceAll('_', ' ');
const listed = (terms: KeyTerms): string => glanceAtTerms(terms).join(', ') || 'nothing is limited';
const targets = (list: readonly Target[]): string =>
  list.map(({ upstream, model }) => (model === undefined ? upstream : `${upstream} (${model})`)).join(', ');
const place = ({ provider, package: name, base_url, paused }: UpstreamTerms): string =>
  `${provider} at ${base_url ?? name ?? 'its own address'}${paused ? ', paused' : ''}`;
const windows = (choice: 'keep' | 'reset'): string =>
  choice === 'reset' ? ' Running windows began anew.' : '';

/** What an event says; its type, for one that this page does not know yet. */
export function tellEvent({ type, actor, fields }: EventRow, names: Names): string {
  // What the server told is an event of its vocabulary, but for the digest of a secret.
  const event = { type, actor, ...fields } as unknown as Event;
  const time = (iso: string): string => showTime(iso, names.zone);
  switch (event.type) {
    case 'account.registered':
      return `Account ${quoted(event.name)} registered.`;
    case 'account.suspended':
      return `Account ${quoted(names.account(event.account))} suspended: its calls are refused.`;
    case 'account.reinstated':
      return `Account ${quoted(names.account(event.account))} reinstated.`;
    case 'account.plan_changed':
      return `Account ${quoted(names.account(event.account))} put on ${event.plan === null ? 'no plan, which limits nothing' : `plan ${quoted(event.plan)}`}.${windows(event.windows)}`;
    case 'account.terms_overridden':
      return `Account ${quoted(names.account(event.account))} given ${Object.keys(event.terms).length === 0 ? 'the terms of its plan again' : `terms of its own: ${listed(event.terms)}`}.${windows(event.windows)}`;
    case 'key.created':
      return `Key ${quoted(event.name)} created${event.expires_at === undefined ? '' : `, good until ${time(event.expires_at)}`}.`;
    case 'key.rotated':
      return `Key ${quoted(names.key(event.key))} given a new secret; the old one ${event.overlap_ends_at === undefined ? 'ended at once' : `is good until ${time(event.overlap_ends_at)}`}.`;
    case 'key.revoked':
      return `Key ${quoted(names.key(event.key))} revoked.`;
    case 'key.expired':
      return `Key ${quoted(names.key(event.key))} expired.`;
    case 'key.renamed':
      return `Key ${event.key} renamed to ${quoted(event.name)}.`;
    case 'key.restricted':
      return `Key ${quoted(names.key(event.key))} restricted: ${listed(event.terms)}.${event.expires_at == null ? '' : ` Good until ${time(event.expires_at)}.`}${windows(event.windows)}`;
    case 'plan.defined':
      return `Plan ${quoted(event.plan)} defined: ${listed(event.terms)}.`;
    case 'plan.changed':
      return `Plan ${quoted(event.plan)} changed: ${listed(event.terms)}.${windows(event.windows)}`;
    case 'plan.retired':
      return `Plan ${quoted(event.plan)} retired.`;
    case 'model.priced':
      return `Model ${quoted(event.model)} priced at ${showCost(event.prices.input)} in and ${showCost(event.prices.output)} out for a million tokens.`;
    case 'model.defined':
      return `Model ${quoted(event.model)} ${'alias_of' in event.terms ? `made another name of ${quoted(event.terms.alias_of)}` : `sent to ${targets(event.terms.targets)}`}.`;
    case 'model.retired':
      return `Model ${quoted(event.model)} retired.`;
    case 'upstream.added':
      return `Upstream ${quoted(event.upstream)} added: ${place(event.terms)}.`;
    case 'upstream.changed':
      return `Upstream ${quoted(event.upstream)} changed: ${place(event.terms)}.`;
    case 'upstream.removed':
      return `Upstream ${quoted(event.upstream)} removed with its credentials.`;
    case 'upstream.credential_added':
      return `Credential ${quoted(event.label)} given to upstream ${quoted(event.upstream)}.`;
    case 'upstream.credential_removed':
      return `Credential ${event.credential} taken from upstream ${quoted(event.upstream)}.`;
    case 'member.added':
      return `${names.member(event.member)} joined account ${quoted(names.account(event.account))} as ${event.role}.`;
    case 'member.role_changed':
      return `${names.member(event.member)} is now ${event.role}.`;
    case 'member.removed':
      return `${names.member(event.member)} removed.`;
    case 'member.password_changed':
      return `${names.member(event.member)} chose a new password.`;
    case 'member.totp_changed':
      return `${names.member(event.member)} signs in ${event.enabled ? 'with a code from a device as well' : 'without a code'} from now on.`;
    case 'member.reset_link_created':
      return `Link made by which ${names.member(event.member)} chooses a new password.`;
    case 'invitation.created':
      return `Invitation made for a${event.role === 'member' ? '' : 'n'} ${event.role}, good until ${time(event.expires_at)}.`;
    case 'invitation.revoked':
      return `Invitation ${event.invitation} withdrawn.`;
    case 'session.opened':
      return `${names.member(event.member)} signed in.`;
    case 'session.closed':
      return `${names.member(event.member)} signed out.`;
    case 'registration.changed':
      return `Registration is ${event.policy === 'invite' ? 'by invitation' : event.policy}; new accounts land on ${event.plan === null ? 'no plan' : `plan ${quoted(event.plan)}`}.`;
    case 'log.signer_changed':
      return `Checkpoints are signed by key ${event.verifier_key.split('+')[1] ?? ''} from here on.`;
    case 'log.epoch_started':
      return `Epoch ${event.epoch} of the log begins: it goes on from a backup, and ${showCounted(event.lost_size, 'event')} had been published.`;
    case 'log.read':
      return `The log was read (${event.what}), positions ${showCount(event.from_position)} to ${showCount(event.to_position)}.`;
    case 'request.accepted':
      return `Key ${quoted(names.key(event.key))} calls ${event.model}; ${showCounted(event.hold_tokens, 'token')} held.`;
    case 'request.extended':
      return `Hold of a call of ${event.model} grown to ${showCounted(event.hold_tokens, 'token')}.`;
    case 'request.settled':
      return `Call of ${event.model} with key ${quoted(names.key(event.key))} ended, ${inWords(event.end_reason)}, in ${showDuration(event.duration_ms)}: ${showCount(event.input_tokens)} → ${showCounted(event.output_tokens, 'token')}${event.cost_microusd === undefined ? '' : `, ${showCost(event.cost_microusd)}`}.`;
    case 'request.abandoned':
      return `Call of ${event.model} with key ${quoted(names.key(event.key))} abandoned: its server died, and its hold stays charged.`;
    case 'request.rejected':
      return `${event.refused_count > 1 ? `${showCounted(event.refused_count, 'call')} with key` : 'Call with key'} ${quoted(names.key(event.key))} refused with ${event.status} ${event.refusal}.`;
    default:
      return type;
  }
}

/** Who caused an event. */
export function tellActor(actor: string | null, names: Names): string {
  if (actor === null) return '';
  return actor.startsWith('member/')
    ? names.member(actor.slice('member/'.length))
    : actor.replaceAll('-', ' ');
}
