import type { Statement } from '#db/statement/document.ts';
import type { ShownDocument } from '#db/statement/invoices.ts';
import { dollars, grouped, periodText } from '#db/statement/words.ts';

/** The email of a statement, an invoice or a credit note. Pure. */

export type StatementMessage = {
  statement: Statement;
  document: ShownDocument | null;
  /** The names of the attached files; `proof` is null where the file is too large for email. */
  files: { pdf: string; proof: string | null };
  /** The origin of the dashboard; null: the worker doesn't know it. */
  publicUrl: string | null;
};

/** Mail programs cut longer subjects. */
const NAME_CHARACTERS_MAX = 80;

export function statementEmailOf({ statement, document, files, publicUrl }: StatementMessage): {
  subject: string;
  text: string;
} {
  const { account_name: name, issuer, totals, balance } = statement;
  const period = periodText(statement);
  const title = document?.title ?? `Statement, ${period}`;
  return {
    subject: `${title}: ${oneLine(name)}`,
    text: [
      `${title} of ${oneLine(name)}${issuer === null ? '' : ` by ${oneLine(issuer.name)}`}.`,
      '',
      `Period: ${period}`,
      ...(document === null || document.corrects === null ? [] : [`Corrects: invoice ${document.corrects}`]),
      `Amount: ${totals.amount} ${totals.currency}`,
      ...(totals.requests === 0 ? [] : [`Requests: ${grouped(totals.requests)}`]),
      ...(balance === null ? [] : [`Prepaid balance: ${dollars(balance.closing_nanousd)} USD`]),
      '',
      'Attached:',
      `  ${files.pdf}`,
      ...(files.proof === null
        ? ['', 'The file with the proof is too large for email. Download it from the dashboard.']
        : [
            `  ${files.proof}`,
            '',
            `${files.proof} has every event that the amount follows from, with a signed proof. Daybook's`,
            'auditor verifies it without a server:',
            `  npm run -s audit -- statement verify ${files.proof}`,
          ]),
      ...(publicUrl === null ? [] : ['', `${publicUrl}/statements`]),
      '',
    ].join('\n'),
  };
}

/** Names may have control characters. */
function oneLine(text: string): string {
  const line = text.replaceAll(/\p{Cc}+/gu, ' ');
  return line.length <= NAME_CHARACTERS_MAX ? line : `${line.slice(0, NAME_CHARACTERS_MAX - 1)}…`;
}
