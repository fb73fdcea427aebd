import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import type { Command } from '#db/command-line/command.ts';
import { withJson } from '#db/command-line/print.ts';
import { showTable } from '#db/command-line/table.ts';
import { CorrectionReason, CorrectionReference } from '#db/events/usage-events.ts';
import { formatDollars } from '#db/money.ts';
import { run } from '#server/cli/control-session.ts';
import { parseTime } from '#server/cli/keys/key-restrict.ts';
import {
  reprice,
  type Repriced as RepricedRun,
  type RepricedPart,
  type RepriceOrigin,
  repriceReference,
} from '#server/control/reprice.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { type Offer, setPrice } from '#server/decide/price.ts';
import { PriceTable } from '#server/read-model/price-table.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';
import type { RepricedLine } from '#server/read-model/reprice.ts';

type Options = {
  from: string;
  to: string;
  account?: string;
  model?: string;
  priceFile?: string;
  dryRun?: true;
  reference?: string;
  reason?: string;
};

/** `daybook price reprice` */
export function repriceCommand(price: Command): void {
  withJson(price.command('reprice'))
    .description(
      'correct the charges and upstream costs of a period to the current prices; a run that was ended ' +
        'half-way is continued by the same command',
    )
    .requiredOption('--from <time>', 'the beginning of the period, such as 2026-11-01T00:00:00Z')
    .requiredOption('--to <time>', 'its end, which is not in it')
    .option('--account <name|id>', 'only this account')
    .option('--model <name>', 'only this model')
    .option('--price-file <path>', 'with --dry-run: the prices of this file in place of the current ones')
    .option('--dry-run', 'print the difference without recording corrections')
    .option('--reference <text>', 'of the corrections; default: from the period and the prices')
    .option('--reason <text>', 'of the corrections, for the event log; at most 200 characters')
    .action((options: Options, command: Command) =>
      run(
        command,
        async ({ control, client }) => {
          const part = {
            from: parseTime(options.from),
            to: parseTime(options.to),
            account: options.account === undefined ? null : (await control.loadAccount(options.account)).id,
            model: options.model ?? null,
          };
          if (part.from >= part.to)
            throw new DecisionError('invalid', 'The period is empty: --to must be after --from.');
          if (options.priceFile !== undefined && options.dryRun !== true)
            throw new DecisionError(
              'invalid',
              'Corrections are by prices of the log. Import the file first, or add --dry-run.',
            );
          const now = await control.load();
          const prices =
            options.priceFile === undefined ? now.prices : await pricesOf(options.priceFile, now);
          const origin = options.dryRun === true ? null : originOf(options, part, prices);
          const done = await reprice(client, prices, part, origin && { ...origin, control });
          return describe(part, done, now, origin);
        },
        showRepriced,
      ),
    );
}

function originOf(
  { reference: named, reason: given }: Options,
  part: RepricedPart,
  prices: PriceTable,
): RepriceOrigin {
  const reference = CorrectionReference.safeParse(named ?? repriceReference(part, prices));
  if (!reference.success)
    throw new DecisionError('invalid', '--reference must be 1 to 128 printable ASCII characters.');
  const reason = CorrectionReason.safeParse(given ?? 'repriced by the current prices');
  if (!reason.success) throw new DecisionError('invalid', '--reason must be 1 to 200 characters.');
  return { reference: reference.data, reason: reason.data };
}

/** The current prices, with those of a file in place of their models' prices. */
async function pricesOf(file: string, { prices: current }: ReadModel): Promise<PriceTable> {
  const { offerFromFile } = await import('#server/cli/prices/offer-file.ts');
  const table = new PriceTable();
  const set = ({ pattern, terms, source }: Omit<Offer, 'notes'>, plan: string | null): void => {
    const event = setPrice(undefined, { pattern, plan, terms, source, actor: 'command-line' });
    if (event) table.apply({ event, version: 0, position: 0, at: new Date(0) });
  };
  for (const price of current.all) set(price, price.plan);
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw new DecisionError('invalid', `${file} can't be read (${(error as NodeJS.ErrnoException).code}).`);
  }
  for (const offer of offerFromFile(text, basename(file), [], undefined).offers) set(offer, null);
  return table;
}

type Amounts = 'before_nanousd' | 'after_nanousd' | 'upstream_before_nanousd' | 'upstream_after_nanousd';
type Figures = Omit<RepricedLine, 'account' | 'model' | Amounts> &
  Record<Amounts | 'difference_nanousd' | 'upstream_difference_nanousd', string>;
type Repriced = {
  from: string;
  to: string;
  dry_run: boolean;
  /** Null in a dry run. */
  reference: string | null;
  /** Requests that have a correction with the reference: of this run, or of an earlier one. */
  corrected: number;
  /** Requests that were abandoned, which keep the charge of their reservations. */
  abandoned: number;
  total: Figures;
  accounts: (Figures & { account: string; name: string })[];
  models: (Figures & { account: string; model: string })[];
};

function describe(
  part: RepricedPart,
  { repricing: { lines }, corrected, abandoned }: RepricedRun,
  now: ReadModel,
  origin: RepriceOrigin | null,
): Repriced {
  const byAccount = Map.groupBy(lines, ({ account }) => account);
  return {
    from: part.from.toISOString(),
    to: part.to.toISOString(),
    dry_run: origin === null,
    reference: origin?.reference ?? null,
    corrected,
    abandoned,
    total: sumOf(lines),
    accounts: [...byAccount].map(([account, own]) => ({
      account,
      name: now.account(account)?.name ?? account,
      ...sumOf(own),
    })),
    models: lines.map((line) => ({ account: line.account, model: line.model, ...sumOf([line]) })),
  };
}

function sumOf(lines: readonly RepricedLine[]): Figures {
  const count = (of: 'requests' | 'changed' | 'unpriced_before' | 'unpriced_after'): number =>
    lines.reduce((sum, line) => sum + line[of], 0);
  const amount = (of: Amounts): bigint => lines.reduce((sum, line) => sum + line[of], 0n);
  const [before, after] = [amount('before_nanousd'), amount('after_nanousd')];
  const [upstreamBefore, upstreamAfter] = [
    amount('upstream_before_nanousd'),
    amount('upstream_after_nanousd'),
  ];
  return {
    requests: count('requests'),
    changed: count('changed'),
    unpriced_before: count('unpriced_before'),
    unpriced_after: count('unpriced_after'),
    before_nanousd: String(before),
    after_nanousd: String(after),
    difference_nanousd: String(after - before),
    upstream_before_nanousd: String(upstreamBefore),
    upstream_after_nanousd: String(upstreamAfter),
    upstream_difference_nanousd: String(upstreamAfter - upstreamBefore),
  };
}

function showRepriced({ from, to, total, accounts, models, ...rest }: Repriced): string {
  const { abandoned, reference, corrected } = rest;
  const dollars = (nanousd: string): string => formatDollars(BigInt(nanousd));
  const row = (account: string, model: string, figures: Figures): string[] => [
    account,
    model,
    String(figures.requests),
    String(figures.changed),
    dollars(figures.before_nanousd),
    dollars(figures.after_nanousd),
    dollars(figures.difference_nanousd),
    dollars(figures.upstream_difference_nanousd),
  ];
  const rows = accounts.flatMap((each) => [
    ...models
      .filter(({ account }) => account === each.account)
      .map((line) => row(each.name, line.model, line)),
    row(each.name, 'all', each),
  ]);
  return [
    showTable(
      ['ACCOUNT', 'MODEL', 'REQUESTS', 'CHANGED', 'RECORDED', 'BY THESE PRICES', 'DIFFERENCE', 'UPSTREAM'],
      [...rows, row('all', 'all', total)],
    ),
    `Charges in US dollars of requests that ended from ${from} until before ${to}, with their corrections. ` +
      'UPSTREAM is the difference of upstream costs.',
    reference === null
      ? 'Nothing was changed.'
      : `${corrected} requests are corrected with the reference "${reference}".`,
    ...(total.unpriced_before + total.unpriced_after > 0
      ? [
          `Without a price: ${total.unpriced_before} as recorded, ${total.unpriced_after} by these prices, ` +
            'which keep their charge.',
        ]
      : []),
    ...(abandoned > 0 ? [`${abandoned} abandoned requests keep the charge of their reservations.`] : []),
  ].join('\n');
}
