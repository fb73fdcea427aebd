import { collect, type Command } from '#db/command-line/command.ts';
import { withJson } from '#db/command-line/print.ts';
import { formatDollars } from '#db/money.ts';
import { run } from '#server/cli/control-session.ts';
import { applyDifferences } from '#server/control/reconcile/apply.ts';
import { DecisionError } from '#server/decide/decision.ts';

type Options = { difference: string[]; reason: string };

/** `daybook reconcile apply` */
export function applyCommand(reconcile: Command): void {
  withJson(reconcile.command('apply').argument('<id>', 'of the comparison'))
    .description(
      "correct the recorded costs and tokens of a difference's requests to those of the bill, each once; " +
        'charges of accounts stay',
    )
    .requiredOption('--difference <number>', 'its number in the report; repeatable', collect)
    .requiredOption('--reason <text>', 'for the event log; at most 200 characters')
    .action((id: string, { difference, reason }: Options, command: Command) =>
      run(
        command,
        ({ client, control }) =>
          applyDifferences(client, control, { id, differences: difference.map(numberOf), reason }),
        ({ corrected, repeated, amount_nanousd }) =>
          `Corrected ${corrected} requests by $${formatDollars(BigInt(amount_nanousd))}; ` +
          `${repeated} were corrected before.`,
      ),
    );
}

function numberOf(text: string): number {
  if (!/^\d{1,9}$/.test(text))
    throw new DecisionError('invalid', `--difference ${text} is no number of a difference.`);
  return Number(text);
}
