import type { Command } from '#db/command-line/command.ts';
import { withJson } from '#db/command-line/print.ts';
import { reportCsv } from '#db/reconcile/report/csv.ts';
import { reportText } from '#db/reconcile/report/text.ts';
import { run } from '#server/cli/control-session.ts';
import { loadReconciliation } from '#server/control/reconcile/record.ts';

/** `daybook reconcile show` */
export function showCommand(reconcile: Command): void {
  withJson(reconcile.command('show').argument('<id>', 'of the comparison'))
    .description('print a recorded report; its SHA-256 must be the one in the log')
    .option('--csv', 'print the differences as CSV, in nano-dollars')
    .action((id: string, { csv }: { csv?: true }, command: Command) =>
      run(
        command,
        async ({ client }) => (await loadReconciliation(client, id)).report,
        (report) => (csv === true ? [...reportCsv(report)].join('').trimEnd() : reportText(report)),
      ),
    );
}
