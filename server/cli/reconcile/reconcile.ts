import type { Command } from '#db/command-line/command.ts';
import { applyCommand } from '#server/cli/reconcile/apply.ts';
import { compareCommand } from '#server/cli/reconcile/compare.ts';
import { importCommand } from '#server/cli/reconcile/import.ts';
import { listCommand } from '#server/cli/reconcile/list.ts';
import { showCommand } from '#server/cli/reconcile/show.ts';

/** `daybook reconcile …` */
export function reconcileCommands(program: Command): void {
  const reconcile = program
    .command('reconcile')
    .description("providers' bills, compared with the log and with what accounts are charged");
  importCommand(reconcile);
  compareCommand(reconcile);
  listCommand(reconcile);
  showCommand(reconcile);
  applyCommand(reconcile);
}
