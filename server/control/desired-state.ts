import type { Client } from 'pg';
import { publicId } from '#db/ids.ts';
import { ConflictError } from '#db/log/append.ts';
import { readNewestOfStream } from '#db/log/read-streams.ts';
import { UnreadableEventError } from '#db/log/read.ts';
import { readCredentials } from '#db/secrets/credentials.ts';
import { matchesSecret } from '#db/secrets/envelope.ts';
import { masterKeyFile } from '#db/secrets/master-key.ts';
import { APPLIED_EVENTS_MAX, DRIFT_EVENTS_MAX } from '#server/control/bounds.ts';
import type { Control } from '#server/control/control.ts';
import { type Configured, reachable, UpstreamControl } from '#server/control/upstream-control.ts';
import {
  type ApplyPlan,
  type DesiredState,
  type Difference,
  planApply,
  type Section,
} from '#server/decide/apply.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { readKeys } from '#server/secrets/master-key.ts';

/** Plans and applies the desired state of a file, for the command line beside the database and the API. */

export type DriftEvent = { type: string; actor: string; at: string; position: number };
/** A difference, with the newest changes that others have made to the object since the caller's own. */
export type PlannedDifference = Difference & { changed_by: DriftEvent[] };
export type PlannedState = Omit<ApplyPlan, 'differences'> & { differences: PlannedDifference[] };

type Session = { control: Control; client: Client; config: Configured };
type PlanOptions = { prune: boolean; placeOf: (section: Section, name: string) => string };

/** @throws {DecisionError} when a step of the plan is rejected. */
export async function planDesiredState(
  { control, client, config }: Session,
  wanted: DesiredState,
  { prune, placeOf }: PlanOptions,
): Promise<PlannedState> {
  const model = await control.load();
  const keys = readKeys(masterKeyFile(config));
  const sealed = new Map((await readCredentials(client)).map((each) => [each.id, each]));
  const current = {
    upstreams: model.directory.upstreams,
    models: model.directory.models,
    plan: (name: string) => model.plan(name),
    price: (pattern: string) => model.prices.get(pattern),
    configured: new Set(config.upstreams.map(({ name }) => name)),
    isListed: (name: string, upstreams: Parameters<typeof reachable>[0]['upstreams']) =>
      reachable({ upstreams, models: [] }, config).isListed(name),
    isSecret(id: string, secret: string): boolean | null {
      const credential = sealed.get(id);
      if (!credential || !keys) return null;
      try {
        return matchesSecret(keys, credential, credential, secret);
      } catch {
        return null;
      }
    },
    newId: publicId,
  };
  const plan = planApply(current, wanted, { prune, actor: control.actor, placeOf });
  if (plan.appends.length > APPLIED_EVENTS_MAX)
    throw new DecisionError(
      'not_allowed',
      `The file makes ${plan.appends.length} changes; the maximum is ${APPLIED_EVENTS_MAX}. ` +
        'Apply one part first.',
    );
  const differences: PlannedDifference[] = [];
  for (const difference of plan.differences)
    differences.push({ ...difference, changed_by: await changesByOthers(client, control.actor, difference) });
  return { ...plan, differences };
}

/** @returns the position of the last event. @throws {DecisionError} when the state changed meanwhile. */
export async function commitDesiredState(
  { control, client, config }: Session,
  { appends, seal, remove }: PlannedState,
): Promise<number> {
  try {
    return await new UpstreamControl(control, client, config).commit({ appends, seal, remove });
  } catch (error) {
    if (!(error instanceof ConflictError)) throw error;
    throw new DecisionError(
      'not_allowed',
      'The state changed meanwhile, so nothing was applied. Run the command again and check the differences.',
    );
  }
}

const STREAMS: Readonly<Record<Section, string>> = {
  upstreams: 'upstream',
  models: 'dispatch',
  plans: 'plan',
  prices: 'model',
};

/** Newest first. Changes by `apply` beside the database are not drift, by any user. */
async function changesByOthers(
  client: Client,
  actor: string,
  { section, name }: Difference,
): Promise<DriftEvent[]> {
  const newest = await readNewestOfStream(client, `${STREAMS[section]}/${name}`, DRIFT_EVENTS_MAX);
  const found: DriftEvent[] = [];
  for (const row of newest) {
    if (row instanceof UnreadableEventError || !('actor' in row.event)) continue;
    const { type, actor: other } = row.event;
    if (other === actor || other.startsWith(APPLY_ACTOR)) break;
    found.push({ type, actor: other, at: row.at.toISOString(), position: row.position });
  }
  return found;
}

/** The beginning of the actor of `daybook apply` beside the database. */
export const APPLY_ACTOR = 'apply/';
