import { collect, type Command } from '#db/command-line/command.ts';
import { withJson } from '#db/command-line/print.ts';
import { showTable } from '#db/command-line/table.ts';
import type { Price } from '#db/fold/price.ts';
import { formatDollars, parseDollars, type Prices } from '#db/money.ts';
import { run } from '#server/cli/control-session.ts';
import { DecisionError } from '#server/decide/decision.ts';
import type { ImportPlan } from '#server/decide/price.ts';
import type { Offered } from '#server/read-model/price-import.ts';
import type { Skipped } from '#server/read-model/price-snapshot.ts';

type SetOptions = { input: string; cachedInput?: string; output: string; reasoning?: string };
type ImportOptions = { provider?: string[]; models?: string; dryRun?: true; replaceManual?: true };

/** `daybook price …` */
export function priceCommands(program: Command): void {
  const price = program
    .command('price')
    .alias('prices')
    .description('prices of models, in US dollars per million tokens');

  withJson(price.command('set').argument('<model>', "a model's name, or a prefix followed by *"))
    .description('set the price of a model, or of all models with a prefix: gpt-4o*')
    .requiredOption('--input <dollars>', 'price of prompt tokens, such as 2.50')
    .option('--cached-input <dollars>', 'price of cached prompt tokens; default: --input')
    .requiredOption('--output <dollars>', 'price of reply tokens')
    .option('--reasoning <dollars>', 'price of reasoning tokens; default: --output')
    .action((model: string, options: SetOptions, command: Command) =>
      run(
        command,
        async ({ control }) => {
          const prices = readPrices(options);
          await control.setPrice(model, prices);
          return { model, ...inNanodollars(prices) };
        },
        () => `Price of ${model}: ${inWords(readPrices(options))}, in US dollars per million tokens.`,
      ),
    );

  withJson(price.command('list'))
    .description('list prices')
    .action((_options: unknown, command: Command) =>
      run(
        command,
        async ({ control }) =>
          (await control.load()).prices.all.map(({ pattern, prices, source, version }) => ({
            model: pattern,
            ...inNanodollars(prices),
            source,
            version,
          })),
        showPrices,
      ),
    );

  withJson(price.command('import'))
    .description('import prices from the list that is installed with Daybook, without network access')
    .option(
      '--provider <id>',
      'a provider such as openai; repeatable; default: the providers of the configured upstreams',
      collect,
    )
    .option('--models <names>', 'import only these models, exact names separated by commas')
    .option('--dry-run', 'print the changes without making them')
    .option('--replace-manual', 'also replace prices that were set manually')
    .action((options: ImportOptions, command: Command) =>
      run(
        command,
        async ({ config, control }) => {
          const models = options.models?.split(',').filter((name) => name !== '');
          // Loaded on demand: no other command needs these megabytes.
          const { offerPrices } = await import('#server/read-model/price-import.ts');
          const offered = offerPrices(options.provider ?? [], models, config);
          const dryRun = options.dryRun === true;
          const plan = await control.importPrices(offered.offers, {
            replaceManual: options.replaceManual === true,
            dryRun,
          });
          return describeImport(offered, dryRun, plan);
        },
        showImport,
      ),
    );
}

function readPrices(options: SetOptions): Prices {
  const read = (name: string, text: string): number => {
    const price = parseDollars(text);
    if (price === null)
      throw new DecisionError(
        'invalid',
        `--${name} "${text}" is not a price in dollars such as 2.50: 0 to 1000, at most 6 decimal places.`,
      );
    return price;
  };
  const input = read('input', options.input);
  const output = read('output', options.output);
  return {
    input,
    cached_input: options.cachedInput === undefined ? input : read('cached-input', options.cachedInput),
    output,
    reasoning: options.reasoning === undefined ? output : read('reasoning', options.reasoning),
  };
}

type Imported = {
  source: string;
  providers: string[];
  dry_run: boolean;
  changed: {
    model: string;
    before: InNanodollars | null;
    after: InNanodollars;
    notes: readonly string[];
  }[];
  kept_manual: { model: string; set: InNanodollars; offered: InNanodollars }[];
  unchanged: number;
  skipped: Skipped[];
};

function describeImport(
  { source, providers, skipped }: Offered,
  dryRun: boolean,
  plan: ImportPlan,
): Imported {
  return {
    source,
    providers,
    dry_run: dryRun,
    changed: plan.changes.map(({ event, before, offer }) => ({
      model: event.model,
      before: before && inNanodollars(before),
      after: inNanodollars(event.prices),
      notes: offer.notes,
    })),
    kept_manual: plan.kept.map(({ offer, price }) => ({
      model: offer.pattern,
      set: inNanodollars(price.prices),
      offered: inNanodollars(offer.prices),
    })),
    unchanged: plan.unchanged,
    skipped,
  };
}

function showImport({
  source,
  providers,
  dry_run,
  changed,
  kept_manual,
  unchanged,
  skipped,
}: Imported): string {
  const line = (state: string, model: string, rest: string): string =>
    `  ${state.padEnd(8)} ${model}  ${rest}`;
  const notes = (list: readonly string[]): string => list.map((note) => ` (${note})`).join('');
  return [
    `${dry_run ? 'Would import' : 'Imported'} from ${source}, provider ${providers.join(', ')}:`,
    ...changed.map(({ model, before, after, notes: list }) =>
      line(
        before ? 'changed' : 'new',
        model,
        `${short(after)}${before ? `, before ${short(before)}` : ''}${notes(list)}`,
      ),
    ),
    ...kept_manual.map(({ model, set, offered }) =>
      line(
        'kept',
        model,
        `${short(set)} set manually, the list has ${short(offered)}; use --replace-manual to import it`,
      ),
    ),
    ...skipped.map(({ provider, model, why }) => line('skipped', model, `${provider}: ${why}`)),
    [
      `${changed.length} ${dry_run ? 'would change' : 'changed'}, ${unchanged} unchanged,`,
      `${kept_manual.length} kept, ${skipped.length} skipped.`,
      'Dollars per million tokens: input, cached input, output, reasoning.',
    ].join(' '),
  ].join('\n');
}

/** Nanodollars per million tokens, in the JSON output. */
type InNanodollars = {
  input_nanousd: number;
  cached_input_nanousd: number;
  output_nanousd: number;
  reasoning_nanousd: number;
};

function inNanodollars({ input, cached_input, output, reasoning }: Prices): InNanodollars {
  return {
    input_nanousd: input,
    cached_input_nanousd: cached_input,
    output_nanousd: output,
    reasoning_nanousd: reasoning,
  };
}

function inWords({ input, cached_input, output, reasoning }: Prices): string {
  return [
    `input ${formatDollars(input)}`,
    `cached input ${formatDollars(cached_input)}`,
    `output ${formatDollars(output)}`,
    `reasoning ${formatDollars(reasoning)}`,
  ].join(', ');
}

const cells = (price: InNanodollars): string[] =>
  [price.input_nanousd, price.cached_input_nanousd, price.output_nanousd, price.reasoning_nanousd].map(
    formatDollars,
  );
const short = (price: InNanodollars): string => cells(price).join(' ');

function showPrices(
  prices: (InNanodollars & { model: string; source: string; version: Price['version'] })[],
): string {
  if (prices.length === 0)
    return 'There are no prices yet. Set one with price set, or import a list with price import.';
  return showTable(
    ['MODEL', 'INPUT', 'CACHED', 'OUTPUT', 'REASONING', 'SOURCE'],
    prices.map((price) => [price.model, ...cells(price), price.source]),
  );
}
