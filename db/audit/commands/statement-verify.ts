import { createReadStream } from 'node:fs';
import { readKeys } from '#db/audit/commands/verifier-keys.ts';
import { collect, type Command, FoundFault } from '#db/command-line/command.ts';
import { print, withJson } from '#db/command-line/print.ts';
import { formatDollars } from '#db/money.ts';
import { StoreError } from '#db/postgres/connect.ts';
import {
  STATEMENT_FILE_BYTES_MAX,
  StatementFileError,
  verifyStatementFile,
  type VerifiedStatement,
} from '#db/statement/file.ts';
import { documentTitle, invoiceName } from '#db/statement/invoices.ts';
import { verifyPrinted } from '#db/statement/printed.ts';
import { formatVerifierKey } from '#db/tlog/note.ts';

type Options = { key?: string[]; witness?: string[]; document?: string[] };

type Verified =
  | {
      valid: true;
      log: string;
      size: number;
      account: string;
      from: string;
      to: string;
      events: number;
      cost_nanousd: string;
      digest: string;
      invoice: string | null;
      documents: string[];
      lines: string[];
    }
  | { valid: false; problem: string };

/** `daybook audit statement verify`: verifies a statement file offline. */
export function statementVerifyCommand(statement: Command): void {
  withJson(statement.command('verify').argument('<file>', 'a statement file with its proof'))
    .description(
      'verify a statement file without a server or a database: computes every figure from the proven ' +
        'events; "-" reads standard input; exits with 1 and names the first wrong figure if it is invalid',
    )
    .option(
      '--key <line|file>',
      "the log's verifier key from a source that you trust, or a file of such keys; repeatable",
      collect,
    )
    .option(
      '--witness <line|file>',
      'verifier key of a witness that must have cosigned, or a file of such keys; repeatable',
      collect,
    )
    .option(
      '--document <file>',
      'a statement as .json, .csv or .pdf that must show the proven one, to the last digit; repeatable',
      collect,
    )
    .action(async (file: string, options: Options, command: Command) => {
      const { key = [], witness = [], document = [] } = options;
      const known = { keys: readKeys(key, 'ed25519'), witnesses: readKeys(witness, 'cosignature') };
      const verified = await verify(await readText(file), known, document);
      print<Verified>(command, verified, (result) =>
        result.valid ? result.lines.join('\n') : `Not valid: ${result.problem}.`,
      );
      if (!verified.valid) throw new FoundFault();
    });
}

async function verify(
  text: string,
  known: Parameters<typeof verifyStatementFile>[1],
  documents: readonly string[],
): Promise<Verified> {
  try {
    const verified = verifyStatementFile(parseJson(text), known);
    for (const each of documents) await verifyPrinted(each, await readBytes(each), verified);
    const { statement, checkpoint, events, digest, invoice } = verified;
    return {
      valid: true,
      log: checkpoint.origin,
      size: checkpoint.size,
      account: statement.account,
      from: statement.from,
      to: statement.to,
      events,
      cost_nanousd: statement.totals.cost_nanousd,
      digest,
      invoice: invoice === null ? null : invoiceName(invoice),
      documents: [...documents],
      lines: [
        ...describe(verified),
        ...documents.map((each) => `${each} shows this statement, to the last digit.`),
      ],
    };
  } catch (error) {
    if (error instanceof StatementFileError) return { valid: false, problem: error.message };
    throw error;
  }
}

/** The proven facts, and the open ones. */
function describe({
  statement,
  checkpoint,
  events,
  signers,
  isKeyKnown,
  cosignatures,
  invoice,
}: VerifiedStatement): string[] {
  const { account, account_name: name, from, to, totals, balance, is_final: isFinal } = statement;
  return [
    // Quoted: a line break in it must not look like a line of this report.
    `Statement of ${JSON.stringify(name)} (${account}), from ${from} to ${to} (UTC)`,
    `${totals.requests} requests: ${totals.cost_nanousd} nano-dollars, ` +
      `${formatDollars(BigInt(totals.cost_nanousd))} dollars`,
    '',
    `Valid: every figure follows from ${events} events, which are included in the log ${checkpoint.origin} ` +
      `under its checkpoint of size ${checkpoint.size}, signed by ` +
      `${signers.map(formatVerifierKey).join(' and ')}.`,
    ...(isKeyKnown
      ? []
      : [
          'That key came with the file, and a forged file can carry a forged key. Compare it with a key ' +
            'from another source, and pass that one with --key.',
        ]),
    ...cosignatures.map(({ verifier }) => `Cosigned by ${formatVerifierKey(verifier)}.`),
    ...(invoice === null
      ? [
          'The file does not prove that no event is missing: compare the total with "audit statement", or ' +
            'with an invoice, whose digest is in the log.',
        ]
      : [`Billed by ${documentTitle(invoice)}, which the log has with the digest of this statement.`]),
    ...(balance === null || balance.opening_nanousd === '0'
      ? []
      : ['The opening balance follows from earlier events, which are not in the file.']),
    ...(isFinal ? [] : ['The period was not over: later events can change the figures.']),
  ];
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new StatementFileError('it is not a statement file: invalid JSON');
  }
}

const readText = async (file: string): Promise<string> => (await readBytes(file)).toString();

async function readBytes(file: string): Promise<Buffer> {
  const parts: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const part of file === '-' ? process.stdin : createReadStream(file)) {
      parts.push(part as Buffer);
      bytes += (part as Buffer).length;
      if (bytes > STATEMENT_FILE_BYTES_MAX) throw new StoreError(`${file} is larger than any statement file`);
    }
  } catch (error) {
    throw error instanceof StoreError
      ? error
      : new StoreError(`${file} can't be read (${(error as NodeJS.ErrnoException).code})`, { cause: error });
  }
  return Buffer.concat(parts);
}
