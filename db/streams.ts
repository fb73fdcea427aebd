import type { ControlEvent } from '#db/events.ts';

/** The stream that a control event belongs to: one per account, key, plan and priced model. */
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
      return `key/${event.key}`;
    case 'plan.defined':
    case 'plan.changed':
    case 'plan.retired':
      return `plan/${event.plan}`;
    case 'model.priced':
      return `model/${event.model}`;
  }
}
