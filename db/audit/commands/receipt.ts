import { createReadStream } from 'node:fs';
import { readKeys } from '#db/audit/commands/verifier-keys.ts';
import { describeEvents, describeProof } from '#db/audit/commands/receipt-text.ts';
import { collect, type Command, FoundFault } from '#db/command-line/command.ts';
import { print, withJson } from '#db/command-line/print.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { type VerifiedReceipt, verifyReceipt, RECEIPT_BYTES_MAX, ReceiptError } from '#db/tlog/receipt.ts';

type Options = { key?: string[]; witness?: string[] };

/** The output: the events with their proof, or why the receipt is invalid. */
type Checked =
  | { proven: true; log: string; size: number; request: string; events: string[]; proof: string[] }
  | { proven: false; problem: string };

/** `daybook audit receipt`: verifies a receipt offline. */
export function receiptCommand(audit: Command): void {
  withJson(audit.command('receipt').argument('<file>', 'a receipt, as JSON or tlog-proof'))
    .description(
      'verify the receipt of a request without a server or a database; "-" reads standard input; exits ' +
        'with 1 if the receipt proves nothing',
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
    .action(async (file: string, { key = [], witness = [] }: Options, command: Command) => {
      const known = {
        keys: readKeys(key, 'ed25519'),
        witnesses: readKeys(witness, 'cosignature'),
      };
      const checked = check(await readReceipt(file), known);
      print<Checked>(command, checked, (result) =>
        result.proven ? [...result.events, '', ...result.proof].join('\n') : `Not proven: ${result.problem}.`,
      );
      if (!checked.proven) throw new FoundFault();
    });
}

function check(text: string, known: Parameters<typeof verifyReceipt>[1]): Checked {
  try {
    const opened: VerifiedReceipt = verifyReceipt(parseJson(text), known);
    const { receipt, checkpoint } = opened;
    return {
      proven: true,
      log: checkpoint.origin,
      size: checkpoint.size,
      request: receipt.request,
      events: [`Request ${receipt.request}`, ...describeEvents(opened)],
      proof: describeProof(opened),
    };
  } catch (error) {
    if (error instanceof ReceiptError) return { proven: false, problem: error.message };
    throw error;
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new ReceiptError('not a receipt: invalid JSON');
  }
}

async function readReceipt(file: string): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const part of file === '-' ? process.stdin : createReadStream(file)) {
      parts.push(part as Buffer);
      bytes += (part as Buffer).length;
      if (bytes > RECEIPT_BYTES_MAX) throw new StoreError(`${file} is larger than any receipt`);
    }
  } catch (error) {
    throw error instanceof StoreError
      ? error
      : new StoreError(`${file} can't be read (${(error as NodeJS.ErrnoException).code})`, { cause: error });
  }
  return Buffer.concat(parts).toString();
}
