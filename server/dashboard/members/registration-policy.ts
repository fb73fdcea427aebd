import { ChangeReply } from '#server/contract/parts.ts';
import { PutRegistration, RegistrationSettings } from '#server/contract/members.ts';
import { evolveRegistration, REGISTRATION_FIRST } from '#db/fold/registration.ts';
import { readStream } from '#db/log/read.ts';
import type { Change } from '#server/contract/keys.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import {
  ADMINISTRATORS,
  ADMINISTRATORS_AND_AUDITORS,
  type ApiRoute,
  memberRoute,
} from '#server/dashboard/gate.ts';
import { requirePlan } from '#server/decide/plan.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { change } from '#server/sign-in/transaction.ts';

const PLAN_REQUIRED = new ApiError('invalid_value', {
  message: 'Choose a plan: without one, new accounts could call every model without limits.',
  param: 'plan',
});

/** Routes for the registration policy: who may create an account, and on which plan. */
export function registrationPolicyRoutes({ control, relay: { readModel } }: Dashboard): ApiRoute[] {
  return [
    memberRoute(
      'get',
      '/api/v1/registration',
      ADMINISTRATORS_AND_AUDITORS,
      { reply: RegistrationSettings },
      async () => {
        const { policy, plan } = readModel.registration;
        return { object: 'registration', policy, plan } satisfies RegistrationSettings;
      },
    ),

    memberRoute(
      'put',
      '/api/v1/registration',
      ADMINISTRATORS,
      { body: PutRegistration, reply: ChangeReply },
      ({ body }, { actor }) =>
        change<Change>({ control, readModel }, actor, async (writer, client) => {
          const { policy, plan } = body;
          if (policy === 'open' && plan === null) return PLAN_REQUIRED;
          const { state } = plan === null ? { state: null } : requirePlan(await writer.loadPlan(plan), plan);
          if (state === 'retired')
            return new ApiError('not_allowed', {
              message: `Plan "${plan}" is retired, so new accounts can't use it. Choose an active plan.`,
              param: 'plan',
            });
          let registration = REGISTRATION_FIRST;
          for (const stored of await readStream(client, 'registration'))
            registration = evolveRegistration(stored);
          if (registration.policy === policy && registration.plan === plan)
            return { position: null, done: { event: null } };
          const type = 'registration.changed';
          const position = await writer.append([
            { event: { type, policy, plan, actor: writer.actor }, version: registration.version + 1 },
          ]);
          return { position, done: { event: { type, position } } };
        }),
    ),
  ];
}
