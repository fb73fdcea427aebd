import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import { basename } from 'node:path';
import { Option } from 'commander';
import { z } from 'zod';
import { Progress } from '#db/audit/commands/progress.ts';
import { collect, type Command } from '#db/command-line/command.ts';
import { withJson } from '#db/command-line/print.ts';
import { csvLine } from '#db/csv.ts';
import { PlanTerms } from '#db/events/events.ts';
import { ModelName } from '#db/events/parts.ts';
import type { Changes, PlanScope } from '#server/backtest/candidate.ts';
import { CALL_COLUMNS, callCells } from '#server/backtest/call-table.ts';
import { backtest } from '#server/backtest/run.ts';
import { showBacktest } from '#server/cli/backtest-text.ts';
import { readTerms } from '#server/cli/accounts/terms-file.ts';
import { run } from '#server/cli/control-session.ts';
import { parseTime } from '#server/cli/keys/key-restrict.ts';
import type { DifferingCall } from '#server/contract/backtest.ts';
import type { Control } from '#server/control/control.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { requirePlan } from '#server/decide/plan.ts';

type Options = {
  from: string;
  to: string;
  plan?: string;
  ofPlan?: string;
  account?: string[];
  prices?: string;
  modelMap?: string;
  calls?: string;
  archiveDir?: string;
};

const ModelMap = z.record(ModelName, ModelName);

/** `daybook backtest` */
export function backtestCommand(program: Command): void {
  withJson(program.command('backtest'))
    .description(
      'replay the recorded calls of a period under other terms, prices or models, and print the ' +
        'difference: rejected calls, cost and the limits that were hit; changes nothing',
    )
    .requiredOption('--from <time>', 'the beginning of the period, such as 2026-11-01T00:00:00Z')
    .requiredOption('--to <time>', 'its end, which is not in it')
    .option('--plan <plan.json>', 'terms, as for plan define, in place of those of plans')
    .option('--of-plan <name>', 'with --plan: of this plan; default: of all accounts, on a plan or on none')
    .option('--account <name|id>', 'with --plan: of this account; repeatable', collect)
    .option('--prices <prices.yaml>', 'prices, as for price import, in place of those of the same names')
    .option(
      '--model-map <map.json>',
      'models by the models that they replace, such as {"gpt-5":"gpt-5-mini"}',
    )
    .option('--calls <path>', 'write each call with another outcome to a file: CSV, or JSON lines for .jsonl')
    .addOption(
      new Option('--archive-dir <directory>', 'directory with the files of archived partitions').env(
        'ARCHIVE_DIR',
      ),
    )
    .action((options: Options, command: Command) =>
      run(
        command,
        async ({ control, client }) => {
          const [from, to] = [parseTime(options.from), parseTime(options.to)];
          if (from >= to)
            throw new DecisionError('invalid', 'The period is empty: --to must be after --from.');
          const changes = await changesOf(options, control);
          const calls = options.calls === undefined ? null : openCalls(options.calls);
          let progress: Progress | null = null;
          let shown = 0;
          try {
            return await backtest(client, {
              ...{ changes, from, to, archiveDir: options.archiveDir },
              onDifference: (call) => calls?.write(call),
              onProgress: (done, of) => {
                progress ??= new Progress(command, 'replayed', of);
                progress.add(done - shown);
                shown = done;
              },
            });
          } finally {
            (progress as Progress | null)?.end();
            calls?.close();
          }
        },
        showBacktest,
      ),
    );
}

async function changesOf(options: Options, control: Control): Promise<Changes> {
  const { plan, ofPlan, account, prices, modelMap } = options;
  if (plan === undefined && prices === undefined && modelMap === undefined)
    throw new DecisionError('invalid', 'Nothing is changed: add --plan, --prices or --model-map.');
  if (plan === undefined && (ofPlan !== undefined || account !== undefined))
    throw new DecisionError(
      'invalid',
      '--of-plan and --account say which accounts --plan is for. Add --plan.',
    );
  if (ofPlan !== undefined && account !== undefined)
    throw new DecisionError('invalid', 'Use either --of-plan or --account.');
  return {
    plan:
      plan === undefined
        ? null
        : { terms: readTerms(PlanTerms, plan), scope: await scopeOf(options, control) },
    prices: prices === undefined ? [] : await pricesOf(prices),
    models: new Map(modelMap === undefined ? [] : Object.entries(readTerms(ModelMap, modelMap))),
  };
}

async function scopeOf({ ofPlan, account }: Options, control: Control): Promise<PlanScope> {
  if (account !== undefined) {
    const found = await Promise.all(account.map((name) => control.loadAccount(name)));
    return { accounts: new Set(found.map(({ id }) => id)) };
  }
  if (ofPlan === undefined) return 'all';
  return { plan: requirePlan((await control.load()).plan(ofPlan), ofPlan).name };
}

async function pricesOf(file: string): Promise<Changes['prices']> {
  // Loaded on demand: few commands need these megabytes.
  const { offerFromFile } = await import('#server/cli/prices/offer-file.ts');
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw new DecisionError('invalid', `${file} can't be read (${(error as NodeJS.ErrnoException).code}).`);
  }
  return offerFromFile(text, basename(file), [], undefined).offers;
}

/** A file of calls, written as they are found: memory doesn't grow with them. */
function openCalls(file: string): { write: (call: DifferingCall) => void; close: () => void } {
  let descriptor: number;
  try {
    descriptor = openSync(file, 'w', 0o600);
  } catch (error) {
    throw new DecisionError(
      'invalid',
      `${file} can't be written (${(error as NodeJS.ErrnoException).code}).`,
    );
  }
  const isJson = file.endsWith('.jsonl');
  let waiting = isJson ? '' : csvLine(CALL_COLUMNS);
  const flush = (): void => {
    writeSync(descriptor, waiting);
    waiting = '';
  };
  return {
    write: (call) => {
      waiting += isJson ? `${JSON.stringify(call)}\n` : csvLine(callCells(call));
      if (waiting.length > WRITE_CHARACTERS) flush();
    },
    close: () => {
      flush();
      closeSync(descriptor);
    },
  };
}

const WRITE_CHARACTERS = 65_536;
