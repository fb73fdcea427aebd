import type { Command } from '#db/command-line/command.ts';
import { importCommand } from '#server/cli/reconcile/import.ts';

/** `daybook reconcile …` */
export function reconcileCommands(program: Command): void {
  const reconcile = program
    .command('reconcile')
    .description("providers' bills, compared with the log and with what accounts are charged");
  importCommand(reconcile);
}
