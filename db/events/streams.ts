import type { ControlEvent } from '#db/events/events.ts';

/** The stream of what concerns the log as a whole, but for who has read it, which has one of its own. */
export const LOG_STREAM = 'log';

/**
 * The stream that a control event belongs to: one per account, key, plan, priced model, dispatched model,
 * upstream, member, invitation and session.
 */
export function streamOf(event: ControlEvent): string {
  switch (event.type) {
    case 'account.registered':
    case 'account.suspended':
    case 'account.reinstated':
    case 'account.plan_changed':
    case 'account.terms_overridden':
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
      return `model/${event.model}`;
    // Not that of its price, whose versions are told by what was charged.
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
    case 'registration.changed':
      return 'registration';
    case 'log.signer_changed':
    case 'log.epoch_started':
      return LOG_STREAM;
    case 'log.read':
      return 'log/readings';
  }
}
