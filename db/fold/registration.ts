import type { RegistrationPolicy } from '#db/events/parts.ts';
import type { EventOf } from '#db/events/events.ts';
import type { Stored } from '#db/fold/stored.ts';

/** Who may register, and on which plan a new account lands. */
export type Registration = {
  policy: RegistrationPolicy;
  /** The name of a plan; null: on none. */
  plan: string | null;
  /** The version that its stream has reached; the next event takes `version + 1`. */
  version: number;
};

/** Until an administrator changes it, registration is by invitation. */
export const REGISTRATION_FIRST: Registration = { policy: 'invite', plan: null, version: 0 };

/** The policy after the next event of its stream, which replaces the one before. */
export function evolveRegistration({
  event,
  version,
}: Stored<EventOf<'registration.changed'>>): Registration {
  return { policy: event.policy, plan: event.plan, version };
}
