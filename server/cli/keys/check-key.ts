import { isIP } from 'node:net';
import { CHAT_COMPLETIONS, RELAYED_ROUTES, type Route } from '#db/limits/limits.ts';
import type { Session } from '#server/cli/control-session.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { demoConfig } from '#server/upstreams/demo-upstream.ts';
import { type Figures, figuresOf } from '#server/limits/figures.ts';
import { readCounters } from '#server/limits/read-counters.ts';
import { boundsCost } from '#server/limits/call-need.ts';
import { apiErrorOfModel } from '#server/upstreams/find-targets.ts';
import { dryRun, checkLimits } from '#server/access/dry-run.ts';
import { definitionsOf } from '#server/upstreams/definitions.ts';
import type { UpstreamDirectory } from '#server/upstreams/directory.ts';
import { definitionOf } from '#server/upstreams/environment.ts';
import { ModelTable } from '#server/upstreams/model-table.ts';
import { openUpstream } from '#server/upstreams/upstream.ts';

/** The call that is checked. Without an origin it is one from a program. */
export type CheckOptions = { model?: string; route: Route; origin?: string; address?: string };

/** Whether the call would be admitted, and why not. */
export type Checked = {
  passes: boolean;
  refusal: { status: number; code: string; message: string } | null;
  /** Restrictions of the key that were not checked because their option is absent. */
  not_checked: string[];
  /** The usage of the limits that the call would be charged to. */
  limits: Figures[];
};

/**
 * Checks whether a call with a key would be admitted now.
 * @throws {DecisionError} if there is no such key, or an option is invalid.
 */
export async function checkKey(
  { config, control, client }: Session,
  id: string,
  { model, route, origin, address }: CheckOptions,
): Promise<Checked> {
  if (address !== undefined && isIP(address) === 0)
    throw new DecisionError('invalid', `--address: "${address}" is not an IP address.`);
  const { model: loaded, key } = await control.loadKey(id);
  // Prices matter only for a cost quota, and upstreams only for a model. Loading them reads all control
  // events.
  const state = model !== undefined || loaded.limitsOf(key).some(boundsCost) ? await control.load() : loaded;
  const models = modelsAt(state.directory, config);
  const relayed = RELAYED_ROUTES.find((each) => each === route);
  const trial = {
    route,
    origin: origin ?? null,
    address: address ?? null,
    model: model === undefined ? null : models.resolve(model),
  };
  const subjects = state.limitsOf(key);
  const counters = relayed !== undefined ? await readCounters(client, subjects, state.nowMs()) : [];
  const refusal =
    dryRun(key, trial, state, (name) => apiErrorOfModel(models, name, relayed ?? CHAT_COMPLETIONS)) ??
    checkLimits(subjects, counters, state.nowMs());
  const account = state.account(key.account);
  const access = [account ? state.accountAccess(account) : null, state.keyAccess(key)];
  return {
    passes: refusal === null,
    refusal: refusal && { status: refusal.status, code: refusal.code, message: refusal.message },
    not_checked: [
      ...(model === undefined && access.some((each) => each?.permissions?.models) ? ['model'] : []),
      ...(address === undefined && access.some((each) => each?.networks) ? ['address'] : []),
    ],
    limits: counters.map((counter) => figuresOf(counter)),
  };
}

/** The model table of a server with this configuration. It opens no connections, so it needs no secrets. */
function modelsAt({ upstreams, models }: UpstreamDirectory, config: Session['config']): ModelTable {
  const configured = [...config.upstreams, demoConfig('http://127.0.0.1/v1', '')].map(definitionOf);
  const definitions = definitionsOf(
    upstreams,
    { openOf: ({ credentials }) => credentials.map(({ id }) => ({ id, secret: '' })) },
    configured,
  );
  return new ModelTable(
    models,
    definitions.map((each) => openUpstream(each, () => ({}))),
  );
}
