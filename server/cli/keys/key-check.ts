import { Option } from 'commander';
import { type Command, FoundFault } from '#db/command-line/command.ts';
import { showTable } from '#db/command-line/table.ts';
import { ROUTES } from '#db/limits/limits.ts';
import type { Checked, CheckOptions } from '#server/cli/keys/check-key.ts';
import { run, type Session } from '#server/cli/control-session.ts';
import { withServer } from '#server/cli/remote/choose-server.ts';
import type { ManagementApi } from '#server/cli/remote/management-api.ts';
import type { KeyCheckResult } from '#server/contract/keys.ts';
import { DecisionError } from '#server/decide/decision.ts';

/** `daybook key check …` */
export function checkCommand(key: Command): void {
  withServer(key.command('check').argument('<id>', "the key's id"))
    .description(
      'check whether a call with this key would be admitted now, or why not; exits with 1 if it would not',
    )
    .option('--model <name>', 'the model of the call')
    .addOption(new Option('--route <path>', 'the route of the call').choices(ROUTES).default(ROUTES[0]))
    .option('--origin <origin>', 'the Origin header of the call; absent: none, as from a program')
    .option('--address <ip>', 'the IP address of the client')
    .action(async (id: string, options: CheckOptions, command: Command) => {
      let passes = false;
      const check = async (session: Session): Promise<Checked> => {
        // With its modules, every command on keys would load those that call upstreams.
        const { checkKey } = await import('#server/cli/keys/check-key.ts');
        const checked = await checkKey(session, id, options);
        ({ passes } = checked);
        return checked;
      };
      const remote = async (api: ManagementApi): Promise<Checked> => {
        const checked = await checkAt(api, id, options);
        ({ passes } = checked);
        return checked;
      };
      await run(command, check, show, { remote });
      if (!passes) throw new FoundFault();
    });
}

/** Asks the running server, whose limits and upstreams are those of the next call. */
async function checkAt(api: ManagementApi, id: string, options: CheckOptions): Promise<Checked> {
  const { model, route, origin, address } = options;
  if (model === undefined)
    throw new DecisionError('invalid', 'A server checks a whole call. Name its model with --model.');
  const { allowed, checks } = await api.post<KeyCheckResult>(`keys/${encodeURIComponent(id)}/check`, {
    model,
    route,
    origin,
    address,
  });
  return {
    passes: allowed,
    refusal: checks.find(({ passed }) => !passed)?.error ?? null,
    not_checked: address === undefined ? ['address'] : [],
    limits: [],
  };
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
