import { Option } from 'commander';
import { isIP } from 'node:net';
import type { Command } from '#db/command-line/command.ts';
import { withJson } from '#db/command-line/print.ts';
import { showTable } from '#db/command-line/table.ts';
import { RELAYED_ROUTES, type Route, ROUTES } from '#db/limits.ts';
import { NamePatterns } from '#db/permissions.ts';
import { run, type Session } from '#server/cli/session.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { DEMO_MODELS } from '#server/demo-upstream.ts';
import { Refusal } from '#server/errors.ts';
import { type Figures, figuresOf } from '#server/limits/figures.ts';
import { readCounters } from '#server/limits/standing.ts';
import { countsCost } from '#server/relay/admit.ts';
import { judge, judgeLimits } from '#server/relay/judge.ts';
import type { UpstreamDirectory } from '#server/upstreams/directory.ts';

type Options = { model?: string; route: Route; origin?: string; address?: string };

type Checked = {
  passes: boolean;
  refusal: { status: number; code: string; message: string } | null;
  /** What was left open, because the command did not name it, and the key is restricted in it. */
  not_checked: string[];
  /** How the limits stand that the call would be charged to. */
  limits: Figures[];
};

/** `daybook key check …` */
export function checkCommand(key: Command): void {
  withJson(key.command('check <id>'))
    .description('whether a call with this key would pass now and, if not, what it would be told')
    .option('--model <name>', 'the model that is called')
    .addOption(new Option('--route <path>', 'the route that is called').choices(ROUTES).default(ROUTES[0]))
    .option('--origin <origin>', 'the Origin header; without it the call has none, like that of a program')
    .option('--address <ip>', "the caller's address")
    .action((id: string, options: Options, command: Command) => run(command, (session) => check(session, id, options), show));
}

async function check({ config, control, client }: Session, id: string, { model, route, origin, address }: Options): Promise<Checked> {
  if (address !== undefined && isIP(address) === 0) throw new DecisionError('invalid', `--address: "${address}" is not an IP address.`);
  const { model: loaded, key } = await control.loadKey(id);
  // Prices matter only to a quota in money, and upstreams to a model; they are many.
  const state = model !== undefined || loaded.limitsOf(key).some(countsCost) ? await control.load() : loaded;
  const served = new NamePatterns([...config.upstreams.flatMap(({ models }) => models), ...DEMO_MODELS, ...namesOf(state.directory)]);
  const trial = { route, origin: origin ?? null, address: address ?? null, model: model ?? null };
  const counters = RELAYED_ROUTES.some((each) => each === route) ? await readCounters(client, state.limitsOf(key), state.nowMs()) : [];
  const refusal = judge(key, trial, state, (name) => (served.has(name) ? null : new Refusal('model_not_found', { param: 'model' }))) ?? judgeLimits(counters, state.nowMs());
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

/** What the log's own upstreams and models are called. */
const namesOf = ({ upstreams, models }: UpstreamDirectory): string[] => [
  ...[...upstreams].filter(({ state, terms }) => state === 'active' && !terms.paused).flatMap(({ terms }) => terms.models),
  ...[...models].filter(({ state }) => state === 'active').map(({ name }) => name),
];

function show({ refusal, not_checked, limits }: Checked): string {
  const open = not_checked.map((each) => `--${each}`).join(' and ');
  const verdict = refusal
    ? `The call would be refused: ${refusal.status} ${refusal.code}. ${refusal.message}`
    : `The call would pass.${open === '' ? '' : ` It depends on more that was not asked for: ${open}.`}`;
  if (limits.length === 0) return verdict;
  const rows = limits.map(({ scope, meter, window, limit, used, held, free, resets_at }) =>
    [scope, meter, window, String(limit), String(used), String(held), String(free), resets_at ?? ''],
  );
  return `${verdict}\n${showTable(['OF', 'LIMIT ON', 'WINDOW', 'LIMIT', 'USED', 'HELD', 'FREE', 'RESETS'], rows)}`;
}
