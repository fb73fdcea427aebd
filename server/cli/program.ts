import { Command, CommanderError } from 'commander';
import { ArchiveDamageError } from '#db/archive/verify.ts';
import { StoreError } from '#db/connect.ts';
import { accountCommands } from '#server/cli/account.ts';
import { archiveCommands } from '#server/cli/archive.ts';
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

/** `npm run -s daybook -- …`: accounts, plans, keys, prices and a look at the log, beside a running server. */
const program = new Command('daybook')
  .description('Accounts, plans, keys, prices and the log of a Daybook relay. Configured by the same environment as the server.')
  .option('--json', 'print the result as JSON')
  .showHelpAfterError('(add --help for what there is)')
  .exitOverride();

accountCommands(program);
planCommands(program);
keyCommands(program);
priceCommands(program);
memberCommands(program);
logCommands(program);
archiveCommands(program);
webhookCommands(program);
projectionCommands(program);
doctorCommand(program);

try {
  await program.parseAsync();
} catch (error) {
  if (error instanceof CommanderError) process.exitCode = error.exitCode;
  else if (error instanceof ConfigError || error instanceof StoreError || error instanceof DecisionError) {
    const code = error instanceof DecisionError ? error.code : error instanceof ArchiveDamageError ? 'damaged' : 'unavailable';
    const text = program.opts<{ json?: boolean }>().json === true ? JSON.stringify({ error: { code, message: error.message } }) : `daybook: ${error.message}`;
    process.stderr.write(`${text}\n`);
    process.exitCode = 1;
  } else throw error;
}
