import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { collect, type Command } from '#db/command-line/command.ts';
import { run } from '#server/cli/control-session.ts';
import { withServer } from '#server/cli/remote/choose-server.ts';
import type { PriceImportResult } from '#server/contract/models.ts';
import { showChanges, showTerms } from '#server/cli/prices/show.ts';
import { importResult } from '#server/control/import-result.ts';
import { DecisionError } from '#server/decide/decision.ts';

type ImportOptions = {
  provider?: string[];
  models?: string;
  file?: string;
  dryRun?: true;
  replaceManual?: true;
};

/** `daybook price import` */
export function importCommand(price: Command): void {
  withServer(price.command('import'))
    .description(
      'import prices from the list that is installed with Daybook or from a file, without network access',
    )
    .option(
      '--provider <id>',
      'a provider such as openai; repeatable; default: the providers of the configured upstreams',
      collect,
    )
    .option('--models <names>', 'import only these models, exact names separated by commas')
    .option('--file <path>', 'read this file instead: prices in YAML, or a list of genai-prices in JSON')
    .option('--dry-run', 'print the changes without making them')
    .option('--replace-manual', 'also replace prices that were set manually')
    .action((options: ImportOptions, command: Command) =>
      run(
        command,
        async ({ config, control }) => {
          const models = options.models?.split(',').filter((name) => name !== '');
          const providers = options.provider ?? [];
          // Loaded on demand: no other command needs these megabytes.
          const { offerPrices } = await import('#server/read-model/price-import.ts');
          const { offerFromFile } = await import('#server/cli/prices/offer-file.ts');
          const offered =
            options.file === undefined
              ? offerPrices(providers, models, config)
              : offerFromFile(readText(options.file), basename(options.file), providers, models);
          const dryRun = options.dryRun === true;
          const plan = await control.importPrices(offered.offers, {
            replaceManual: options.replaceManual === true,
            dryRun,
          });
          return importResult(offered, dryRun, plan);
        },
        showImport,
        {
          async remote(api) {
            if (options.file !== undefined || options.models !== undefined)
              throw new DecisionError(
                'invalid',
                'A server imports from its own list alone. Without --file and --models, or by daybook apply.',
              );
            return api.post<PriceImportResult>('prices/import', {
              dry_run: options.dryRun === true,
              replace_manual: options.replaceManual === true,
              providers: options.provider ?? [],
            });
          },
        },
      ),
    );
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new DecisionError('invalid', `${file} can't be read (${(error as NodeJS.ErrnoException).code}).`);
  }
}

function showImport(result: ReturnType<typeof importResult>): string {
  const { source, providers, dry_run, changed, kept_manual, unchanged, skipped } = result;
  const line = (state: string, model: string, rest: string): string =>
    `  ${state.padEnd(8)} ${model}  ${rest}`.trimEnd();
  const below = (lines: readonly string[]): string[] => lines.map((each) => `             ${each}`);
  const from = providers.length === 0 ? source : `${source}, provider ${providers.join(', ')}`;
  return [
    `${dry_run ? 'Would import' : 'Imported'} from ${from}:`,
    ...changed.flatMap(({ model, before, after, notes }) => [
      before ? line('changed', model, '') : line('new', model, showTerms(after)),
      ...below(before ? showChanges(before, after) : []),
      ...below(notes),
    ]),
    ...kept_manual.flatMap(({ model, set, offered }) => [
      line('kept', model, 'set manually; use --replace-manual to import the price of the list:'),
      ...below(showChanges(set, offered)),
    ]),
    ...skipped.map(({ provider, model, reason }) => line('skipped', model, `${provider}: ${reason}`)),
    [
      `${changed.length} ${dry_run ? 'would change' : 'changed'}, ${unchanged} unchanged,`,
      `${kept_manual.length} kept, ${skipped.length} skipped.`,
      'Dollars: of tokens and characters per million, of others each.',
    ].join(' '),
  ].join('\n');
}
