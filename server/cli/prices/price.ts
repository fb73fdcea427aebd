import { collect, type Command } from '#db/command-line/command.ts';
import { showTable } from '#db/command-line/table.ts';
import { formatDollars } from '#db/money.ts';
import { type PriceTerms, RATE_PARTS, type RatePart } from '#db/pricing/parts.ts';
import { run } from '#server/cli/control-session.ts';
import { withServer } from '#server/cli/remote/choose-server.ts';
import type { PriceRow } from '#server/contract/models.ts';
import {
  checkPrice,
  parseRule,
  PriceFault,
  PriceInFile,
  priceFromFile,
} from '#server/cli/prices/price-file.ts';
import { importCommand } from '#server/cli/prices/import.ts';
import { repriceCommand } from '#server/cli/prices/reprice.ts';
import { showConditions, showRate, showTerms } from '#server/cli/prices/show.ts';
import { DecisionError } from '#server/decide/decision.ts';

type SetOptions = { plan?: string; rule?: string[] } & { [Option in string]?: string | string[] };

/** The options of `price set`, with what each is the price of. */
const OPTIONS: readonly (readonly [RatePart, string])[] = [
  ['input', 'a million prompt tokens, such as 2.50'],
  ['cache_read', 'a million prompt tokens read from a cache; default: --input'],
  ['cache_write_5m', 'a million tokens written to a cache for 5 minutes; default: --input'],
  ['cache_write_1h', 'a million tokens written to a cache for an hour; default: --cache-write-5m'],
  ['output', 'a million reply tokens'],
  ['reasoning', 'a million reasoning tokens; default: --output'],
  ['audio_input', 'a million audio tokens of the prompt; default: --input'],
  ['audio_output', 'a million audio tokens of the reply; default: --output'],
  ['image_input', 'a million image tokens of the prompt; default: --input'],
  ['image_output', 'a million image tokens of the reply; default: --output'],
  ['characters', 'a million characters'],
  ['media_hour', 'an hour of audio or video'],
  ['image', 'an image'],
  ['web_search', 'a web search'],
  ['tool_call', 'a call of another tool that the provider runs'],
  ['per_request', 'each request, in addition'],
  ['minimum', 'a request at least'],
];

const flagOf = (part: RatePart): string => `--${part.replaceAll('_', '-')}`;
/** As commander names the value of the flag. */
const nameOf = (part: RatePart): string =>
  part.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase());

/** `daybook price …` */
export function priceCommands(program: Command): void {
  const price = program.command('price').alias('prices').description('prices of models, in US dollars');

  const set = withServer(
    price.command('set').argument('<model>', "a model's name, or a prefix followed by *"),
  ).description('set the price of a model, or of all models with a prefix: gpt-4o*');
  for (const [part, text] of OPTIONS) set.option(`${flagOf(part)} <dollars>`, text);
  set
    .option(
      '--rule <rule>',
      "prices under conditions, such as 'input_tokens_above=200000 input=5'; repeatable; the first that " +
        'applies counts',
      collect,
    )
    .option('--plan <name>', "what the plan's accounts are charged, instead of what the provider charges")
    .action((model: string, options: SetOptions, command: Command) =>
      run(
        command,
        async ({ control }) => {
          const terms = readTerms(options);
          await control.setPrice(model, terms, options.plan ?? null);
          return { model, plan: options.plan ?? null, ...terms };
        },
        () => `Price of ${model}${ofPlan(options.plan ?? null)}: ${showTerms(readTerms(options))}.`,
        {
          async remote(api) {
            const terms = readTerms(options);
            await api.put('prices', { model, plan: options.plan, ...terms });
            return { model, plan: options.plan ?? null, ...terms };
          },
        },
      ),
    );

  withServer(price.command('list'))
    .description('list prices')
    .action((_options: unknown, command: Command) =>
      run(
        command,
        async ({ control }) =>
          (await control.load()).prices.all.map(({ pattern, plan, terms, source, version }) => ({
            model: pattern,
            plan,
            ...terms,
            source,
            version,
          })),
        showPrices,
        { remote: (api) => api.list<PriceRow>('prices') },
      ),
    );

  importCommand(price);
  repriceCommand(price);
}

function readTerms(options: SetOptions): PriceTerms {
  try {
    const base = Object.fromEntries(
      OPTIONS.map(([part]) => [part, options[nameOf(part)]] as const).filter(
        ([, value]) => value !== undefined,
      ),
    );
    const { base: rate } = priceFromFile(PriceInFile.parse(base));
    const rules = options.rule?.map(parseRule) ?? [];
    return checkPrice(rules.length === 0 ? { base: rate } : { base: rate, rules });
  } catch (error) {
    if (!(error instanceof PriceFault)) throw error;
    const [part] = error.path;
    const isPart = (RATE_PARTS as readonly unknown[]).includes(part) && error.path.length === 1;
    throw new DecisionError(
      'invalid',
      isPart ? `${flagOf(part as RatePart)}: ${error.message}` : error.message,
    );
  }
}

const ofPlan = (plan: string | null): string => (plan === null ? '' : ` for plan ${plan}`);

type Listed = PriceTerms & { model: string; plan: string | null; source: string };

const COLUMNS = ['input', 'cache_read', 'cache_write_5m', 'output', 'reasoning'] as const;

/** A row for each price; its other parts and its rules follow, indented. */
function showPrices(prices: readonly Listed[]): string {
  if (prices.length === 0)
    return 'There are no prices yet. Set one with price set, or import a list with price import.';
  const others = RATE_PARTS.filter((part) => !(COLUMNS as readonly RatePart[]).includes(part));
  const [heading, ...rows] = showTable(
    ['MODEL', 'INPUT', 'CACHE READ', 'CACHE WRITE', 'OUTPUT', 'REASONING', 'SOURCE'],
    prices.map(({ model, plan, base, source }) => [
      `${model}${plan === null ? '' : ` (plan ${plan})`}`,
      ...COLUMNS.map((part) => (base[part] === undefined ? '-' : formatDollars(base[part]))),
      source,
    ]),
  ).split('\n');
  return [
    heading,
    ...prices.flatMap(({ base, rules = [] }, index) => {
      const rest = showRate(base, others);
      return [
        rows[index],
        ...(rest === '' ? [] : [`  ${rest}`]),
        ...rules.map(({ when, rate }) => `  ${showConditions(when)}: ${showRate(rate)}`),
      ];
    }),
  ].join('\n');
}
