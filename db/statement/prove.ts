import type { ClientBase } from 'pg';
import { splitEntry } from '#db/log/line.ts';
import { digestOf } from '#db/statement/canonical.ts';
import { eventOfEntry, type StatementFile } from '#db/statement/file.ts';
import { inLogOrder, type ReadStatement } from '#db/statement/read.ts';
import { cosignedBy, readCoveringCheckpoint } from '#db/tlog/checkpoint-store.ts';
import { readLogState } from '#db/tlog/log-state.ts';
import { readMultiProof } from '#db/tlog/multi-proof.ts';
import { parseVerifierKey } from '#db/tlog/note.ts';
import { hashesFromDatabase } from '#db/tlog/tiles.ts';

/**
 * The file of a statement with its proof.
 * @param invoice the entry of its invoice; null: none.
 * @param witnesses verifier keys of the witnesses whose cosignatures it includes.
 * @returns null if no checkpoint covers its events yet.
 * @throws {MissingHashesError} when events beside those of the statement are archived.
 */
export async function proveStatement(
  client: ClientBase,
  { statement, entries: read }: ReadStatement,
  invoice: string | null,
  witnesses: readonly string[],
): Promise<StatementFile | null> {
  const entries = inLogOrder(invoice === null ? read : [...read, invoice]);
  const positions = entries.map((entry) => splitEntry(entry).place.position);
  const stored = await readCoveringCheckpoint(client, positions.at(-1) ?? 1);
  if (stored === null) return null;
  const { origin, signing } = await readLogState(client);
  const proof = await readMultiProof(
    positions.map((position) => position - 1),
    stored.size,
    () => hashesFromDatabase(client, stored.size),
  );
  const { checkpoint, witnesses: signedBy } = cosignedBy(stored, witnesses);
  return {
    file: 'daybook statement proof 1',
    statement,
    digest: digestOf(statement),
    invoice_position: invoice === null ? null : eventOfEntry(invoice).position,
    entries,
    proof: proof.map((hash) => hash.toString('base64')),
    checkpoint,
    keys: signing.keys
      .map(({ verifierKey }) => verifierKey)
      .filter((line) => parseVerifierKey(line).name === origin),
    witnesses: signedBy,
  };
}
