import type { RegistrationPolicy } from '#db/events/parts.ts';
import type { ControlEvent } from '#db/events/events.ts';

/** Who may register, and on which plan a new account lands. */
export type Registration = {
  policy: RegistrationPolicy;
  /** The name of a plan; null: on none. */
  plan: string | null;
  /** How many events its stream has; the next one takes `version + 1`. */
  version: number;
};

/** Nobody comes in uninvited before an administrator has said so. */
export const REGISTRATION_FIRST: Registration = { policy: 'invite', plan: null, version: 0 };

/** The policy after one more event; events of other subjects change nothing. */
export function evolveRegistration(registration: Registration, event: ControlEvent): Registration {
  if (event.type !== 'registration.changed') return registration;
  return { policy: event.policy, plan: event.plan, version: registration.version + 1 };
}
