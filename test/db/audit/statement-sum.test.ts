import { env } from 'node:process';
import { expect, test } from 'vitest';
import type { StatementReport } from '#db/audit/commands/statement-text.ts';
import { publicId, uuidv7 } from '#db/ids.ts';
import { costOf, roundCost } from '#db/pricing/cost.ts';
import { scheduleOf } from '#db/pricing/schedule.ts';
import { commandLine } from '../../support/servers/command-line.ts';
import { createDatabase } from '../../support/database.ts';
import { accepted, openLivingWriter, registered, settled } from '../../support/log/log-writer.ts';

/** The long form, `STATEMENT_CALLS=10000000`, takes some minutes and 2 GB of disk. */
const CALLS = Number(env['STATEMENT_CALLS'] ?? 4_000);
const BATCH = 2_000;

test(
  'embedding calls of ten tokens add up exactly in the statement, from the log alone',
  async () => {
    await using database = await createDatabase();
    await using writer = await openLivingWriter(database);
    const account = publicId();
    await writer.control([{ event: registered(account), version: 1 }]);
    const price = { base: { input: 20_000_000 } };
    const cost = roundCost(costOf({ input: 10, cached: 0, output: 0, reasoning: 0 }, scheduleOf(price).base));
    const begun = accepted({ account, model: 'text-embedding-3-small', route: '/v1/embeddings' });
    const end = settled(begun, { input_tokens: 10, output_tokens: 0, cost_nanousd: cost });
    for (let written = 0; written < CALLS; written += BATCH)
      await writer.append(
        Array.from({ length: Math.min(BATCH, CALLS - written) }, () => ({ ...end, request: uuidv7() })),
      );
    // A run at midnight of the first of a month may write in both.
    const months = [0, 1].map((back) => new Date(Date.now() - back * 86_400_000).toISOString().slice(0, 7));
    const { json } = commandLine(() => ({ DATABASE_URL: database.url, LOG_LEVEL: 'silent' }));
    const reports = [];
    for (const month of new Set(months))
      reports.push(await json<StatementReport>('audit', 'statement', '--all', '--month', month));
    const totals = reports.map(({ total }) => total as NonNullable<StatementReport['total']>);
    expect(totals.map(({ is_equal: isEqual }) => isEqual)).toEqual(totals.map(() => true));
    const exact = BigInt(CALLS) * 10n * 20n;
    expect(totals.reduce((sum, total) => sum + total.requests, 0)).toBe(CALLS);
    expect(totals.reduce((sum, total) => sum + BigInt(String(total.cost_nanousd)), 0n)).toBe(exact);
    const lines = reports.flatMap(({ statements }) => statements.flatMap((each) => each.lines));
    expect(lines.reduce((sum, { input_tokens: tokens }) => sum + tokens, 0)).toBe(CALLS * 10);
  },
  Math.max(60_000, CALLS),
);
