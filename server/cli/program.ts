import { CommanderError } from 'commander';
import { ArchiveDamageError } from '#db/archive/verify.ts';
import { StoreError } from '#db/connect.ts';
import { accountCommands } from '#server/cli/account.ts';
import { archiveCommands } from '#server/cli/archive.ts';
import { Command, type Surroundings } from '#server/cli/command.ts';
import { doctorCommand } from '#server/cli/doctor.ts';
import { keyCommands } from '#server/cli/key.ts';
import { logCommands } from '#server/cli/log.ts';
import { memberCommands } from '#server/cli/member.ts';
import { planCommands } from '#server/cli/plan.ts';
import { priceCommands } from '#server/cli/price.ts';
import { projectionCommands } from '#server/cli/projections.ts';
import { webhookCommands } from '#server/cli/webhook.ts';
import { ConfigError } from '#server/config.ts';
import { DecisionError } from '#server/decide/decision.ts';

/** What there is, in the order in which the help lists it. */
const GROUPS = [
  accountCommands,
  planCommands,
  keyCommands,
  priceCommands,
  memberCommands,
  logCommands,
  archiveCommands,
  webhookCommands,
  projectionCommands,
  doctorCommand,
];

/**
 * `npm run -s daybook -- …`: accounts, plans, keys, prices and a look at the log, beside a running server.
 * @param args what stands after the program's name.
 * @returns the exit code.
 */
export async function runProgram(args: readonly string[], surroundings: Surroundings): Promise<number> {
  const program = new Command(surroundings, 'daybook')
    .description('Accounts, plans, keys, prices and the log of a Daybook relay. Configured by the same environment as the server.')
    .option('--json', 'print the result as JSON')
    .showHelpAfterError('(add --help for what there is)')
    .exitOverride();
  for (const add of GROUPS) add(program);
  try {
    await program.parseAsync(args, { from: 'user' });
    return 0;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode;
    if (!(error instanceof ConfigError || error instanceof StoreError || error instanceof DecisionError)) throw error;
    const code = error instanceof DecisionError ? error.code : error instanceof ArchiveDamageError ? 'damaged' : 'unavailable';
    const isJson = program.opts<{ json?: boolean }>().json === true;
    surroundings.err(`${isJson ? JSON.stringify({ error: { code, message: error.message } }) : `daybook: ${error.message}`}\n`);
    return 1;
  }
}
