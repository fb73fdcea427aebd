import { expect, test } from 'vitest';
import type { Placed } from '#db/events/events.ts';
import { digestOf } from '#db/statement/canonical.ts';
import { statementCsv } from '#db/statement/csv.ts';
import { StatementFileError, type VerifiedStatement } from '#db/statement/file.ts';
import { foldStatement } from '#db/statement/fold.ts';
import { renderPdf } from '#db/statement/pdf/render.ts';
import { verifyPrinted } from '#db/statement/printed.ts';
import { accepted, settled } from '../../support/log/log-writer.ts';

/** Documents beside the file that proves their statement. */

const events = [1_234_567, 89, 1_000_000_000].map((cost, index): Placed => {
  const begun = accepted({ account: 'Account1', model: index === 1 ? 'gpt-5' : 'claude-opus-4' });
  const event = settled(begun, { cost_nanousd: cost, input_tokens: 1_203 });
  const at = new Date('2026-10-15T12:00:00.000Z');
  return { shard: 0, position: index + 1, at, instance: 1, event, stream: null, version: null };
});
const statement = foldStatement(
  {
    log: 'log',
    ...{ account: 'Account1', key: null, end_user: null, corrections: null },
    from: '2026-10-01T00:00:00.000Z',
    to: '2026-11-01T00:00:00.000Z',
    group_by: ['day'],
    as_of: 30,
    is_final: true,
    opening_balance_nanousd: null,
  },
  events,
);
const digest = digestOf(statement);
const verified: Pick<VerifiedStatement, 'statement' | 'digest' | 'invoice' | 'issued_at'> = {
  ...{ statement, digest, invoice: null, issued_at: null },
};
const verify = (name: string, text: string | Buffer) => verifyPrinted(name, Buffer.from(text), verified);

/** The changes of a single digit that pass. */
async function passing(name: string, text: string): Promise<string[]> {
  const passed: string[] = [];
  for (const { index } of text.matchAll(/[0-9]/g))
    for (let digit = 0; digit < 10; digit++) {
      if (text[index] === String(digit)) continue;
      const changed = `${text.slice(0, index)}${digit}${text.slice(index + 1)}`;
      const error: unknown = await verify(name, changed).catch((each: unknown) => each);
      if (!(error instanceof StatementFileError))
        passed.push(changed.slice(Math.max(0, index - 30), index + 30));
    }
  return passed;
}

test('a CSV of the proven statement passes, and each changed digit is refused', async () => {
  const csv = statementCsv(statement);
  await verify('october.csv', csv);
  expect(await passing('october.csv', csv)).toEqual([]);
});

test('JSON of the API and of the command pass, and each changed digit is refused', async () => {
  const api = JSON.stringify({ object: 'statement', digest, ...statement });
  const command = JSON.stringify({ ...statement, invoice: null });
  await verify('api.json', api);
  await verify('command.json', command);
  expect(await passing('api.json', api)).toEqual([]);
  expect(await passing('command.json', command)).toEqual([]);
  await expect(verify('api.json', 'x')).rejects.toThrow(/not JSON/);
});

test('a PDF of the proven statement passes, and one with another amount or byte is refused', async () => {
  const pdf = (await renderPdf({ statement, digest, document: null })) as Buffer;
  await verify('october.pdf', pdf);
  const totals = { ...statement.totals, amount: '1.02' };
  const other = await renderPdf({ statement: { ...statement, totals }, digest, document: null });
  await expect(verify('october.pdf', other as Buffer)).rejects.toThrow(/not the PDF/);
  const changed = Buffer.from(pdf);
  changed[Math.floor(changed.length / 2)] = (changed[Math.floor(changed.length / 2)] as number) ^ 1;
  await expect(verify('october.pdf', changed)).rejects.toThrow(/not the PDF/);
  await expect(verify('october.doc', pdf)).rejects.toThrow(/\.json, \.csv or \.pdf/);
});
