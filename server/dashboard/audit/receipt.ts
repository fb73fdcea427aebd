import type { ClientBase } from 'pg';
import { describeEvents, describeProof } from '#db/audit/commands/receipt-text.ts';
import { parseVerifierKey } from '#db/tlog/note.ts';
import { readLogState } from '#db/tlog/log-state.ts';
import { ReceiptError, verifyReceipt } from '#db/tlog/receipt.ts';
import type { ReceiptCheckResult } from '#server/contract/audit.ts';

/**
 * Whether a receipt is one of this log: by its own keys, those of the histories that were given up included,
 * and with no look at the events.
 */
export async function checkReceipt(client: ClientBase, text: string): Promise<ReceiptCheckResult> {
  const { signing } = await readLogState(client);
  const nothing = (problem: string): ReceiptCheckResult => ({
    object: 'receipt_check',
    valid: false,
    statements: [],
    problem,
  });
  // Without a key that is known a receipt is believed by its own word.
  if (signing.keys.length === 0)
    return nothing("This log hasn't been signed yet, so receipts can't be verified.");
  try {
    const opened = verifyReceipt(parse(text), {
      keys: signing.keys.map(({ verifierKey }) => parseVerifierKey(verifierKey)),
      witnesses: [],
    });
    return {
      object: 'receipt_check',
      valid: true,
      statements: [`Request ${opened.receipt.request}`, ...describeEvents(opened), ...describeProof(opened)],
      problem: null,
    };
  } catch (error) {
    if (!(error instanceof ReceiptError)) throw error;
    return nothing(`${error.message.charAt(0).toUpperCase()}${error.message.slice(1)}.`);
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new ReceiptError('it is no receipt: it is not JSON');
  }
}
