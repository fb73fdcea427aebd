import { Option } from 'commander';
import { type Command, FoundFault } from '#db/command-line/command.ts';
import { withJson } from '#db/command-line/print.ts';
import { showTable } from '#db/command-line/table.ts';
import { ROUTES } from '#db/limits/limits.ts';
import type { Checked, CheckOptions } from '#server/cli/keys/check-key.ts';
import { run, type Session } from '#server/cli/control-session.ts';

/** `daybook key check …` */
export function checkCommand(key: Command): void {
  withJson(key.command('check').argument('<id>', "the key's id"))
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
      await run(command, check, show);
      if (!passes) throw new FoundFault();
    });
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
