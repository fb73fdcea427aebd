import { createHash } from 'node:crypto';
import type { z } from 'zod';
import {
  ApplyState,
  PlanState,
  StateApplied,
  StatePlan,
} from '#server/contract/desired-state/desired-state.ts';
import { type KeyCaller, checkScope } from '#server/access/management-key.ts';
import { UNCHANGED } from '#server/control/change.ts';
import {
  commitDesiredState,
  planDesiredState,
  type PlannedDifference,
} from '#server/control/desired-state.ts';
import { makeChange } from '#server/dashboard/change.ts';
import { DESIRED_STATE_BYTES_MAX } from '#server/dashboard/bounds.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import { ADMINISTRATORS, type ApiRoute, route } from '#server/dashboard/gate.ts';
import type { DesiredState, Section } from '#server/decide/apply.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { Caller } from '#server/sign-in/signed-in.ts';
import { checkBaseUrl } from '#server/upstreams/addresses.ts';

type Declared = z.output<typeof PlanState>;

/** `daybook plan`, `drift` and `apply` at a server. */
export function desiredStateRoutes(dashboard: Dashboard): ApiRoute[] {
  const { config, credentials } = dashboard;
  const options = ({ prune }: Declared) => ({ prune, placeOf });
  return [
    route(
      'post',
      '/api/v1/desired-state/plan',
      'upstreams:read',
      ADMINISTRATORS,
      { body: PlanState, reply: StatePlan },
      async ({ body }, who) => {
        const refusal = checkSections(who, body, 'read');
        if (refusal) return refusal;
        return makeChange(dashboard, who, async (control, client) => {
          const session = { control, client, config };
          const { differences } = await planDesiredState(session, wantedOf(body), options(body));
          return { object: 'state_plan', differences, digest: digestOf(differences), ...UNCHANGED };
        });
      },
      DESIRED_STATE_BYTES_MAX,
    ),

    route(
      'post',
      '/api/v1/desired-state/apply',
      'upstreams:write',
      ADMINISTRATORS,
      { body: ApplyState, reply: StateApplied },
      async ({ body }, who) => {
        const refusal = checkSections(who, body, 'write');
        if (refusal) return refusal;
        const applied = await makeChange(dashboard, who, async (control, client) => {
          const session = { control, client, config };
          const plan = await planDesiredState(session, wantedOf(body), options(body));
          const { differences } = plan;
          if (body.digest !== undefined && body.digest !== digestOf(differences))
            throw new DecisionError(
              'precondition_failed',
              'The differences aren’t those of the plan any more, so nothing was applied. Plan again.',
            );
          const last = plan.appends.at(-1);
          if (!last) return { object: 'state_applied', differences, ...UNCHANGED };
          const position = await commitDesiredState(session, plan);
          return { object: 'state_applied', differences, event: { type: last.event.type, position } };
        });
        if (!(applied instanceof ApiError)) await credentials.refresh();
        return applied;
      },
      DESIRED_STATE_BYTES_MAX,
    ),
  ];
}

const SCOPES = { upstreams: 'upstreams', models: 'upstreams', plans: 'plans', prices: 'prices' } as const;

/** Each section needs the scope of its objects, too. */
function checkSections(who: Caller, { state }: Declared, access: 'read' | 'write'): ApiError | null {
  if (!('scopes' in who)) return null;
  for (const section of Object.keys(state) as Section[]) {
    const refusal = checkScope(who as KeyCaller, `${SCOPES[section]}:${access}`);
    if (refusal) return refusal;
  }
  return null;
}

/** @throws {DecisionError} for an address that calls must not be sent to. */
function wantedOf({ state }: { state: z.output<typeof PlanState>['state'] }): DesiredState {
  const { upstreams, models, plans, prices } = state;
  for (const [name, { terms }] of Object.entries(upstreams ?? {})) {
    const fault = terms.base_url === undefined ? null : checkBaseUrl(terms.base_url, terms.network);
    if (fault !== null) throw new DecisionError('invalid', placeOf('upstreams', name) + fault);
  }
  return {
    ...(upstreams && {
      upstreams: mapOf(upstreams, ({ terms, keep_paused, credentials }) => ({
        terms,
        saysPaused: !keep_paused,
        credentials: credentials ? new Map(Object.entries(credentials)) : null,
      })),
    }),
    ...(models && { models: mapOf(models, (terms) => terms) }),
    ...(plans && { plans: mapOf(plans, (terms) => terms) }),
    ...(prices && { prices: mapOf(prices, (terms) => terms) }),
  };
}

const mapOf = <T, U>(record: Readonly<Record<string, T>>, make: (each: T) => U): Map<string, U> =>
  new Map(Object.entries(record).map(([name, each]) => [name, make(each)]));

const placeOf = (section: Section, name: string): string => `${section}.${name}: `;

/** Of the differences that a person or a program has agreed to. */
const digestOf = (differences: readonly PlannedDifference[]): string =>
  createHash('sha256').update(JSON.stringify(differences)).digest('base64url');
