import { type Command, Option } from 'commander';
import { isIP } from 'node:net';
import { type Route, ROUTES } from '#db/limits.ts';
import { NamePatterns } from '#db/permissions.ts';
import { run, type Session, withJson } from '#server/cli/session.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { DEMO_MODELS } from '#server/demo-upstream.ts';
import { judge } from '#server/relay/judge.ts';

type Options = { model?: string; route: Route; origin?: string; address?: string };

type Checked = {
  passes: boolean;
  refusal: { status: number; code: string; message: string } | null;
  /** What was left open, because the command did not name it, and the key is restricted in it. */
  not_checked: string[];
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

async function check({ config, control }: Session, id: string, { model, route, origin, address }: Options): Promise<Checked> {
  if (address !== undefined && isIP(address) === 0) throw new DecisionError('invalid', `--address: "${address}" is not an IP address.`);
  const { model: state, key } = await control.loadKey(id);
  const served = new NamePatterns([...config.upstreams.flatMap(({ models }) => models), ...DEMO_MODELS]);
  const trial = { route, origin: origin ?? null, address: address ?? null, model: model ?? null };
  const refusal = judge(key, trial, state, (name) => served.has(name));
  const account = state.account(key.account);
  const access = [account ? state.accountAccess(account) : null, state.keyAccess(key)];
  return {
    passes: refusal === null,
    refusal: refusal && { status: refusal.status, code: refusal.code, message: refusal.message },
    not_checked: [
      ...(model === undefined && access.some((each) => each?.permissions?.models) ? ['model'] : []),
      ...(address === undefined && access.some((each) => each?.networks) ? ['address'] : []),
    ],
  };
}

function show({ refusal, not_checked }: Checked): string {
  if (refusal) return `The call would be refused: ${refusal.status} ${refusal.code}. ${refusal.message}`;
  const open = not_checked.map((each) => `--${each}`).join(' and ');
  return `The call would pass.${open === '' ? '' : ` It depends on more that was not asked for: ${open}.`}`;
}
