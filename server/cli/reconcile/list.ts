import type { Command } from '#db/command-line/command.ts';
import { withJson } from '#db/command-line/print.ts';
import { showTable } from '#db/command-line/table.ts';
import { formatDollars } from '#db/money.ts';
import { listReconciliations, type RecordedReconciliation } from '#db/reconcile/report/store.ts';
import { run } from '#server/cli/control-session.ts';
import { RECONCILIATIONS_LISTED_MAX } from '#server/control/bounds.ts';

/** `daybook reconcile list` */
export function listCommand(reconcile: Command): void {
  withJson(reconcile.command('list'))
    .description('list recorded comparisons, newest first')
    .action((_options: unknown, command: Command) =>
      run(command, ({ client }) => listReconciliations(client, RECONCILIATIONS_LISTED_MAX), showList),
    );
}

function showList(list: readonly RecordedReconciliation[]): string {
  if (list.length === 0) return 'No bill was compared: daybook reconcile compare FILE';
  return showTable(
    ['ID', 'RECORDED', 'PROVIDER', 'FROM', 'UNTIL BEFORE', 'BILL', 'LOG', 'DIFFERENCES', 'UNEXPLAINED'],
    list.map(({ at, event }) => [
      event.reconciliation,
      at.toISOString(),
      event.provider,
      event.from,
      event.to,
      formatDollars(event.bill_nanousd),
      formatDollars(event.log_nanousd),
      String(event.differences.reduce((sum, { count }) => sum + count, 0)),
      formatDollars(event.unexplained_nanousd),
    ]),
  );
}
