import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import type { Client } from 'pg';
import { databaseSource } from '#db/audit/source/source.ts';
import type { Command } from '#db/command-line/command.ts';
import { withJson } from '#db/command-line/print.ts';
import { showTable } from '#db/command-line/table.ts';
import { isControl, type Placed } from '#db/events/events.ts';
import { allReadable, readEvents, readRows } from '#db/log/read.ts';
import { formatDollars } from '#db/money.ts';
import { run } from '#server/cli/control-session.ts';
import { parseTime } from '#server/cli/keys/key-restrict.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { type Offer, setPrice } from '#server/decide/price.ts';
import { PriceTable } from '#server/read-model/price-table.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';
import { type RepricedLine, Repricing } from '#server/read-model/reprice.ts';

type Options = {
  from: string;
  to: string;
  account?: string;
  model?: string;
  priceFile?: string;
  dryRun?: true;
};
/** The requests that are repriced: those that ended in the period. */
type Part = { from: Date; to: Date; account: string | null; model: string | null };

/** `daybook price reprice` */
export function repriceCommand(price: Command): void {
  withJson(price.command('reprice'))
    .description('show the charges of a period by the current prices, from the log alone; changes nothing')
    .requiredOption('--from <time>', 'the beginning of the period, such as 2026-11-01T00:00:00Z')
    .requiredOption('--to <time>', 'its end, which is not in it')
    .option('--account <name|id>', 'only this account')
    .option('--model <name>', 'only this model')
    .option('--price-file <path>', 'compare with the prices of this file; others are the current ones')
    .requiredOption('--dry-run', 'print the difference. The recorded charges stay')
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
          const now = await control.load();
          const prices =
            options.priceFile === undefined ? now.prices : await pricesOf(options.priceFile, now);
          return describe(part, await reprice(client, prices, part), now);
        },
        showRepriced,
      ),
    );
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

/** Reads all control events, and the requests of the period. */
async function reprice(client: Client, prices: PriceTable, part: Part): Promise<Repricing> {
  const repricing = new Repricing(prices);
  const source = await databaseSource(client);
  const first = (await source.seek(part.from)) ?? source.first;
  const last = ((await source.seek(part.to)) ?? source.head + 1) - 1;
  for (let after = 0; ;) {
    const rows = await readRows(client, after, 'control');
    if (rows.length === 0) break;
    for (const placed of allReadable(rows)) if (placed.position < first) repricing.add(placed);
    after = rows.at(-1)?.position ?? after;
    if (after >= first) break;
  }
  const range = { after: first - 1, upTo: last };
  for await (const batches of source.read(range))
    for (const batch of batches)
      for (const placed of allReadable(readEvents(batch, range)))
        if (isControl(placed) || isIn(part, placed)) repricing.add(placed);
  return repricing;
}

function isIn({ from, to, account, model }: Part, { at, event }: Placed): boolean {
  return (
    (event.type === 'request.settled' || event.type === 'request.abandoned') &&
    at >= from &&
    at < to &&
    (account === null || event.account === account) &&
    (model === null || event.model === model)
  );
}

type Figures = Omit<RepricedLine, 'account' | 'model' | 'before_nanousd' | 'after_nanousd'> & {
  before_nanousd: string;
  after_nanousd: string;
  difference_nanousd: string;
};
type Repriced = {
  from: string;
  to: string;
  dry_run: true;
  /** Requests that were abandoned, which keep the charge of their reservations. */
  abandoned: number;
  total: Figures;
  accounts: (Figures & { account: string; name: string })[];
  models: (Figures & { account: string; model: string })[];
};

function describe(part: Part, { lines, abandoned }: Repricing, now: ReadModel): Repriced {
  const byAccount = Map.groupBy(lines, ({ account }) => account);
  return {
    from: part.from.toISOString(),
    to: part.to.toISOString(),
    dry_run: true,
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
  const amount = (of: 'before_nanousd' | 'after_nanousd'): bigint =>
    lines.reduce((sum, line) => sum + line[of], 0n);
  const [before, after] = [amount('before_nanousd'), amount('after_nanousd')];
  return {
    requests: count('requests'),
    changed: count('changed'),
    unpriced_before: count('unpriced_before'),
    unpriced_after: count('unpriced_after'),
    before_nanousd: String(before),
    after_nanousd: String(after),
    difference_nanousd: String(after - before),
  };
}

function showRepriced({ from, to, total, accounts, models, abandoned }: Repriced): string {
  const dollars = (nanousd: string): string => formatDollars(BigInt(nanousd));
  const row = (account: string, model: string, figures: Figures): string[] => [
    account,
    model,
    String(figures.requests),
    String(figures.changed),
    dollars(figures.before_nanousd),
    dollars(figures.after_nanousd),
    dollars(figures.difference_nanousd),
  ];
  const rows = accounts.flatMap((each) => [
    ...models
      .filter(({ account }) => account === each.account)
      .map((line) => row(each.name, line.model, line)),
    row(each.name, 'all', each),
  ]);
  return [
    showTable(
      ['ACCOUNT', 'MODEL', 'REQUESTS', 'CHANGED', 'RECORDED', 'BY THESE PRICES', 'DIFFERENCE'],
      [...rows, row('all', 'all', total)],
    ),
    `Charges in US dollars of requests that ended from ${from} until before ${to}. Nothing was changed.`,
    ...(total.unpriced_before + total.unpriced_after > 0
      ? [`Without a price: ${total.unpriced_before} as recorded, ${total.unpriced_after} by these prices.`]
      : []),
    ...(abandoned > 0 ? [`${abandoned} abandoned requests keep the charge of their reservations.`] : []),
  ].join('\n');
}
