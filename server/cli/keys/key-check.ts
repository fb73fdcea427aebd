import { Option } from 'commander';
import { isIP } from 'node:net';
import type { Command } from '#db/command-line/command.ts';
import { withJson } from '#db/command-line/print.ts';
import { showTable } from '#db/command-line/table.ts';
import { CHAT_COMPLETIONS, RELAYED_ROUTES, type Route, ROUTES } from '#db/limits/limits.ts';
import { run, type Session } from '#server/cli/control-session.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { demoConfig } from '#server/upstreams/demo-upstream.ts';
import { type Figures, figuresOf } from '#server/limits/figures.ts';
import { readCounters } from '#server/limits/read-counters.ts';
import { countsCost } from '#server/relay/call-estimate.ts';
import { apiErrorOfModel } from '#server/upstreams/find-targets.ts';
import { dryRun, checkLimits } from '#server/access/dry-run.ts';
import { definitionsOf } from '#server/upstreams/definitions.ts';
import type { UpstreamDirectory } from '#server/upstreams/directory.ts';
import { definitionOf } from '#server/upstreams/environment.ts';
import { ModelTable } from '#server/upstreams/model-table.ts';
import { openUpstream } from '#server/upstreams/upstream.ts';

type Options = { model?: string; route: Route; origin?: string; address?: string };

type Checked = {
  passes: boolean;
  refusal: { status: number; code: string; message: string } | null;
  /** Restrictions of the key that were not checked because their option is absent. */
  not_checked: string[];
  /** The usage of the limits that the call would be charged to. */
  limits: Figures[];
};

/** `daybook key check …` */
export function checkCommand(key: Command): void {
  withJson(key.command('check').argument('<id>', "the key's id"))
    .description('check whether a call with this key would be admitted now, or why not')
    .option('--model <name>', 'the model of the call')
    .addOption(new Option('--route <path>', 'the route of the call').choices(ROUTES).default(ROUTES[0]))
    .option('--origin <origin>', 'the Origin header of the call; absent: none, as from a program')
    .option('--address <ip>', 'the IP address of the client')
    .action((id: string, options: Options, command: Command) =>
      run(command, (session) => check(session, id, options), show),
    );
}

async function check(
  { config, control, client }: Session,
  id: string,
  { model, route, origin, address }: Options,
): Promise<Checked> {
  if (address !== undefined && isIP(address) === 0)
    throw new DecisionError('invalid', `--address: "${address}" is not an IP address.`);
  const { model: loaded, key } = await control.loadKey(id);
  // Prices matter only for a cost quota, and upstreams only for a model. Loading them reads all control
  // events.
  const state = model !== undefined || loaded.limitsOf(key).some(countsCost) ? await control.load() : loaded;
  const models = modelsAt(state.directory, config);
  const relayed = RELAYED_ROUTES.find((each) => each === route);
  const trial = {
    route,
    origin: origin ?? null,
    address: address ?? null,
    model: model === undefined ? null : models.resolve(model),
  };
  const counters =
    relayed !== undefined ? await readCounters(client, state.limitsOf(key), state.nowMs()) : [];
  const refusal =
    dryRun(key, trial, state, (name) => apiErrorOfModel(models, name, relayed ?? CHAT_COMPLETIONS)) ??
    checkLimits(counters, state.nowMs());
  const account = state.account(key.account);
  const access = [account ? state.accountAccess(account) : null, state.keyAccess(key)];
  return {
    passes: refusal === null,
    refusal: refusal && { status: refusal.status, code: refusal.code, message: refusal.message },
    not_checked: [
      ...(model === undefined && access.some((each) => each?.permissions?.models) ? ['model'] : []),
      ...(address === undefined && access.some((each) => each?.networks) ? ['address'] : []),
    ],
    limits: counters.map(figuresOf),
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

function show({ refusal, not_checked, limits }: Checked): string {
  const open = not_checked.map((each) => `--${each}`).join(' and ');
  const verdict = refusal
    ? `The call would be rejected: ${refusal.status} ${refusal.code}. ${refusal.message}`
    : `The call would be admitted.${open === '' ? '' : ` Not checked: ${open}.`}`;
  if (limits.length === 0) return verdict;
  const rows = limits.map(({ scope, meter, window, limit, used, reserved, remaining, resets_at }) => [
    scope,
    meter,
    window,
    String(limit),
    String(used),
    String(reserved),
    String(remaining),
    resets_at ?? '',
  ]);
  const columns = ['SCOPE', 'METER', 'WINDOW', 'LIMIT', 'USED', 'RESERVED', 'REMAINING', 'RESETS'];
  return `${verdict}\n${showTable(columns, rows)}`;
}
